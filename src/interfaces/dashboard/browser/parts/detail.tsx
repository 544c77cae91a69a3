// Parts of views that show one thing of a list: the way back, and the state before it is loaded.
import { hrefOf } from '../router.ts';
import { ProblemBox } from './problem.tsx';

interface BackProps {
  to: string;
  label: string;
}

export function Back({ to, label }: BackProps) {
  return (
    <a class="back" href={hrefOf(to)}>
      {label}
    </a>
  );
}

interface NotLoadedProps extends BackProps {
  error: unknown;
  onRetry(): void;
}

export function NotLoaded({ error, onRetry, ...back }: NotLoadedProps) {
  return (
    <section class="view" aria-busy={error === undefined}>
      <Back {...back} />
      {error === undefined ? null : <ProblemBox error={error} onRetry={onRetry} />}
    </section>
  );
}
