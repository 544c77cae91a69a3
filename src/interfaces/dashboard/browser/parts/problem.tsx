// An error: what happened and what to do next.
import { Problem } from '../api.ts';

export function ProblemBox({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { message, hint } =
    error instanceof Problem ? error : { message: String(error), hint: undefined };
  return (
    <div class="problem" role="alert">
      <strong>{message}</strong>
      {hint === undefined ? null : <p>{hint}</p>}
      {onRetry ? (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}
