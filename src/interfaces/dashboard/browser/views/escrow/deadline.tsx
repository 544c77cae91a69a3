// A deadline with the time that is left.
import { duration, localTime } from '../../format.ts';
import { now } from '../../now.ts';
import { utcText } from '../../parts/time.tsx';

export function Deadline({ at }: { at: string | undefined }) {
  if (at === undefined) return <>–</>;
  const left = Date.parse(at) - now.value;
  return (
    <time
      dateTime={at}
      title={`${localTime(at, 0)} · ${utcText(at)}`}
      class={left < 0 ? 'bad' : ''}
    >
      {left < 0 ? `passed ${duration(-left)} ago` : `in ${duration(left)}`}
    </time>
  );
}
