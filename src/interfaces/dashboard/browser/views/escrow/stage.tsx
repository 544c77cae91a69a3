// The stage of an escrow job as shape and word.
import { Mark, type Tone } from '../../parts/mark.tsx';
import type { Work } from './types.ts';

const tones: Readonly<Record<string, Tone>> = {
  open: 'wait',
  funded: 'run',
  submitted: 'wait',
  disputed: 'bad',
  completed: 'ok',
  rejected: 'off',
  expired: 'off',
};

const words: Readonly<Record<string, string>> = { submitted: 'delivered', completed: 'paid' };

export function StageMark({ work: { stage, settling } }: { work: Work }) {
  const word = words[stage] ?? stage;
  return (
    <Mark tone={tones[stage] ?? 'off'} word={settling === undefined ? word : `${word}, settling`} />
  );
}
