// Shows that live changes do not arrive, and when the next attempt is made.
import { age } from '../format.ts';
import { reconnectStream, streamRetryAt, streamState } from '../stream/client.ts';
import { now } from '../now.ts';
import { useEffect, useState } from 'preact/hooks';

/** A short interruption is not worth a message. */
const quietMs = 700;
const minShownMs = 2000;

export function ConnectionState() {
  const isDown = streamState.value === 'reconnecting';
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isDown) return setShown(false);
    const timer = setTimeout(() => setShown(true), quietMs);
    return () => clearTimeout(timer);
  }, [isDown]);
  // The next attempt is timed by the clock of this machine, not by the corrected one.
  const waitMs = now.value && (streamRetryAt.value ?? 0) - Date.now();
  return (
    <div class="connection" role="status" hidden={!isShown}>
      {isShown ? (
        <>
          <span>
            <strong>Reconnecting…</strong> The server cannot be reached. What you see may be out of
            date.
            {waitMs > minShownMs ? ` Next attempt in ${age(waitMs)}.` : ''}
          </span>
          <button type="button" onClick={reconnectStream}>
            Try now
          </button>
        </>
      ) : null}
    </div>
  );
}
