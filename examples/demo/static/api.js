// What the page asks of its server.

// post sends JSON; the error it throws has the field that was wrong, if one was.
export async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) {
    throw Object.assign(new Error(answer.error), { field: answer.field });
  }
  return answer;
}

// listen calls onState with every state that the server sends, and onLost when
// the connection is gone. The browser connects again by itself, unless the
// server refused; then this does.
export function listen(onState, onLost) {
  const stream = new EventSource('events');
  stream.onmessage = (event) => onState(JSON.parse(event.data));
  stream.onerror = () => {
    onLost();
    if (stream.readyState === EventSource.CLOSED) {
      setTimeout(() => listen(onState, onLost), 2000);
    }
  };
}
