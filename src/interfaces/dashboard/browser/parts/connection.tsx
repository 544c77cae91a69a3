// Shows that live changes do not arrive, and when the next attempt is made.
import { age } from '../format.ts';
import { reconnectStream, streamRetryAt, streamState } from '../stream/client.ts';
import { now } from '../now.ts';
import { useEffect, useState } from 'preact/hooks';

/** A short interruption is not worth a message. */
const quietMs = 700;

export function ConnectionState() {
  const isDown = streamState.value === 'reconnecting';
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isDown) return setShown(false);
    const timer = setTimeout(() => setShown(true), quietMs);
    return () => clearTimeout(timer);
  }, [isDown]);
  const at = streamRetryAt.value;
  return (
    <div class="connection" role="status" hidden={!isShown}>
      {isShown ? (
        <>
          <span>
            <strong>Reconnecting…</strong> The server cannot be reached. What you see may be out of
            date.
            {at !== undefined && at - now.value > 2000
              ? ` Next attempt in ${age(at - now.value)}.`
              : ''}
          </span>
          <button type="button" onClick={reconnectStream}>
            Try now
          </button>
        </>
      ) : null}
    </div>
  );
}
