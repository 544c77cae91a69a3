// A status as shape and word: colour alone says nothing to some readers.

interface Look {
  tone: string;
  word: string;
  shape: string;
  isFilled?: boolean;
}

const looks: Readonly<Record<string, Look>> = {
  queued: {
    tone: 'wait',
    word: 'queued',
    shape: 'M6 1.6a4.4 4.4 0 1 0 0 8.8a4.4 4.4 0 1 0 0-8.8M6 3.5V6l1.8 1.3',
  },
  running: { tone: 'run', word: 'running', shape: 'M3 1.5l7 4.5-7 4.5z', isFilled: true },
  input_required: { tone: 'wait', word: 'needs input', shape: 'M2 2.5h8v5.5H6l-2.5 2.3V8H2z' },
  completed: { tone: 'ok', word: 'completed', shape: 'M2 6.5l2.6 2.6L10 3.4' },
  failed: { tone: 'bad', word: 'failed', shape: 'M2.5 2.5l7 7m0-7l-7 7' },
  timed_out: {
    tone: 'bad',
    word: 'timed out',
    shape: 'M3 1.5h6M3 10.5h6M3.6 1.5c0 3 4.8 6 4.8 9M8.4 1.5c0 3-4.8 6-4.8 9',
  },
  cancelled: { tone: 'off', word: 'cancelled', shape: 'M2 6h8' },
  lost: { tone: 'bad', word: 'lost', shape: 'M2.5 2.5l7 7m0-7l-7 7' },
};

export const lookOf = (status: string): Look =>
  looks[status] ?? { tone: 'off', word: status, shape: 'M2 6h8' };

/** Stages that tell more than the status, for example `crawling`. */
const plainStages = new Set(['running', 'queued', 'starting', 'ended', 'completed', 'failed']);

interface StatusProps {
  status: string;
  stage?: string | undefined;
  exitCode?: number | null | undefined;
}

export function StatusMark({ status, stage, exitCode }: StatusProps) {
  const { tone, word } = lookOf(status);
  const isActive = status === 'running' || status === 'input_required';
  const shown = isActive && stage !== undefined && !plainStages.has(stage) ? stage : word;
  const code = status === 'failed' && typeof exitCode === 'number' ? ` ${exitCode}` : '';
  return (
    <span class={`status ${tone}`}>
      <Shape status={status} />
      <span>
        {shown.replaceAll('_', ' ')}
        {code}
      </span>
    </span>
  );
}

export function Shape({ status }: { status: string }) {
  const { shape, isFilled } = lookOf(status);
  return (
    <svg viewBox="0 0 12 12" aria-hidden="true" class="shape">
      <path
        d={shape}
        fill={isFilled ? 'currentColor' : 'none'}
        stroke={isFilled ? 'none' : 'currentColor'}
        stroke-width={
          status === 'queued' || status === 'input_required' || status === 'timed_out' ? 1.4 : 2
        }
      />
    </svg>
  );
}
