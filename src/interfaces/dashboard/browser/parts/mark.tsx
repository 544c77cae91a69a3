// A state that is not the status of a job, as shape and word.
import { Shape } from './status.tsx';

const shapes = { ok: 'completed', bad: 'failed', run: 'running', wait: 'queued', off: 'cancelled' };

export type Tone = keyof typeof shapes;

export function Mark({ tone, word }: { tone: Tone; word: string }) {
  return (
    <span class={`status ${tone}`}>
      <Shape status={shapes[tone]} />
      <span>{word}</span>
    </span>
  );
}
