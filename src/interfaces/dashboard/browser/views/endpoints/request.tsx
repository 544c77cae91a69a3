// Sends one request to an endpoint and shows its stream, result or error as they arrive.
import { useEffect, useState } from 'preact/hooks';
import { get, post, problemText } from '../../api.ts';
import { follow } from '../../follow.ts';
import { duration } from '../../format.ts';
import { Json } from '../../parts/json.tsx';
import { ofJob, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { StatusMark } from '../../parts/status.tsx';
import { hrefOf } from '../../router.ts';
import { isFinal, type Job } from '../../types.ts';

const maxChunks = 2000;

export function Request({ path }: { path: string }) {
  const [text, setText] = useState('{}');
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const [id, setId] = useState<string | undefined>(undefined);
  const send = async () => {
    setProblem(undefined);
    let input: unknown;
    try {
      input = JSON.parse(text);
    } catch (error) {
      return setProblem(`The input must be JSON. ${(error as Error).message}`);
    }
    setSending(true);
    try {
      setId((await post<{ id: string }>(`${path}/run`, { input })).id);
    } catch (error) {
      setProblem(problemText(error));
    } finally {
      setSending(false);
    }
  };
  return (
    <div class="request">
      <form
        class="panel box"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <label for="request-input">Input as JSON</label>
        <textarea
          id="request-input"
          class="mono"
          rows={8}
          spellcheck={false}
          value={text}
          aria-invalid={problem !== undefined}
          aria-describedby="request-problem"
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
          }}
        />
        <p id="request-problem" class="field-problem" role="alert">
          {problem}
        </p>
        <div class="actions">
          <button type="submit" class="primary" disabled={isSending}>
            Send
          </button>
        </div>
      </form>
      <div class="panel box" aria-live="polite">
        {id === undefined ? (
          <p class="dim">The response appears here, chunk by chunk if the handler streams.</p>
        ) : (
          <Response key={id} id={id} />
        )}
      </div>
    </div>
  );
}

function Response({ id }: { id: string }) {
  const path = `api/jobs/${id}`;
  const { value, error, reload } = useLoaded(id, (signal) => get<Job>(path, {}, signal));
  const [chunks, setChunks] = useState<readonly unknown[]>([]);
  useLive(reload, { isMine: ofJob(id), everyMs: 100 });
  useEffect(() => {
    const abort = new AbortController();
    void follow(
      `${path}/stream`,
      {},
      {
        signal: abort.signal,
        onItems: (items) =>
          setChunks((before) =>
            [...before, ...items.map((item) => (item as { output: unknown }).output)].slice(
              -maxChunks,
            ),
          ),
        onEnd: reload,
        // The job itself shows what is wrong.
        onError: reload,
      },
    );
    return () => abort.abort();
  }, [path]);
  if (!value) return error === undefined ? null : <ProblemBox error={error} onRetry={reload} />;
  const { status, stage, timings, diagnosis, result } = value;
  return (
    <>
      <div class="response-head">
        <StatusMark status={status} stage={stage} />
        {timings.queuedMs === undefined ? null : (
          <span class="dim">waited {duration(timings.queuedMs)}</span>
        )}
        {timings.runMs === undefined ? null : (
          <span class="dim">ran {duration(timings.runMs)}</span>
        )}
        <a href={hrefOf(`/jobs/${id}`)}>Open the job</a>
      </div>
      {status === 'queued' && diagnosis !== undefined ? <p class="notice">{diagnosis}</p> : null}
      {value.error ? <p class="job-error">{value.error.message}</p> : null}
      {chunks.length > 0 ? (
        <pre class="chunks" tabIndex={0} aria-label="Stream">
          {chunks.map(asText).join('\n')}
        </pre>
      ) : null}
      {result === undefined ? null : <Json value={result} />}
      {value.resultOmitted ? (
        <p class="dim">The result is large. Open the job to read it.</p>
      ) : null}
      {isFinal(status) && result === undefined && !value.error && chunks.length === 0 ? (
        <p class="dim">The handler returned nothing.</p>
      ) : null}
    </>
  );
}

const asText = (chunk: unknown): string =>
  typeof chunk === 'string' ? chunk : JSON.stringify(chunk);
