// The output of a job with its tools: search over all of it, only errors, wrap, line numbers, streams, download.
import { useState } from 'preact/hooks';
import { get, queryText } from '../api.ts';
import { urlOf } from '../base.ts';
import { plural } from '../format.ts';
import { isFinal, type Job } from '../types.ts';
import { parseLine } from '../ansi.ts';
import { useLoaded } from './loading.ts';
import { useStored } from './stored.ts';
import { PieceText } from './output-lines.tsx';
import { OutputPane } from './output-pane.tsx';
import { ProblemBox } from './problem.tsx';

type Target = { byte: number } | { line: number };

interface Found {
  text: string;
  matches?: number;
  omitted?: { reason: string };
}

const maxFoundBytes = 65_536;

export function Output({ job, attempt }: { job: Job; attempt: number | undefined }) {
  const [pattern, setPattern] = useState('');
  const [isRegex, setRegex] = useState(false);
  // The relevant lines of a failure are shown first; the whole output follows below.
  const [isErrors, setErrors] = useState(job.status === 'failed');
  const [isWrapped, setWrapped] = useStored('errand.wrap', true);
  const [hasNumbers, setNumbers] = useStored('errand.numbers', true);
  const [stream, setStream] = useState('both');
  const [target, setTarget] = useState<Target | undefined>(undefined);
  const isSplit = (job.input as { streams?: string } | undefined)?.streams === 'split';
  const isRunning = !isFinal(job.status) && attempt === undefined;
  const streams = !isSplit ? [undefined] : stream === 'both' ? ['stdout', 'stderr'] : [stream];
  const isSearching = pattern.trim() !== '';
  const download = queryText({
    raw: true,
    lossless: true,
    once: true,
    follow: true,
    ...(attempt === undefined ? {} : { attempt }),
  });
  return (
    <div class="output-view">
      <div class="output-tools">
        <input
          type="search"
          aria-label="Search the whole output"
          placeholder="Search the whole output"
          value={pattern}
          onInput={(event) => setPattern(event.currentTarget.value)}
        />
        <button
          type="button"
          aria-pressed={isRegex}
          title="Regular expression (RE2)"
          onClick={() => setRegex(!isRegex)}
        >
          .*
        </button>
        <button type="button" aria-pressed={isErrors} onClick={() => setErrors(!isErrors)}>
          Only errors
        </button>
        <button type="button" aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          Wrap
        </button>
        <button type="button" aria-pressed={hasNumbers} onClick={() => setNumbers(!hasNumbers)}>
          Lines
        </button>
        {isSplit ? (
          <select
            aria-label="Stream"
            value={stream}
            onChange={(event) => setStream(event.currentTarget.value)}
          >
            <option value="both">Both streams</option>
            <option value="stdout">stdout</option>
            <option value="stderr">stderr</option>
          </select>
        ) : null}
        <DownloadButton
          href={urlOf(`api/jobs/${job.id}/output${download}`)}
          name={`${job.name ?? job.id}.log`}
        />
      </div>
      {isSearching ? (
        <FoundLines
          key="search"
          input={{
            mode: 'grep',
            pattern,
            regex: isRegex,
            ignoreCase: !isRegex,
            ...(attempt === undefined ? {} : { attempt }),
          }}
          job={job}
          onOpen={(byte) => setTarget({ byte })}
        />
      ) : null}
      {isErrors && !isSearching ? (
        <FoundLines
          key="errors"
          input={{ mode: 'errors', ...(attempt === undefined ? {} : { attempt }) }}
          job={job}
          onOpen={(line) => setTarget({ line })}
        />
      ) : null}
      <div class={streams.length > 1 ? 'streams two' : 'streams'}>
        {streams.map((one) => (
          <OutputPane
            key={`${attempt} ${one}`}
            id={job.id}
            attempt={attempt}
            stream={one}
            isRunning={isRunning}
            isWrapped={isWrapped}
            hasNumbers={hasNumbers}
            target={target}
          />
        ))}
      </div>
    </div>
  );
}

interface FoundLinesProps {
  input: Record<string, unknown>;
  job: Job;
  onOpen(place: number): void;
}

/** Lines with their position, as the server numbers them: bytes for a search, lines for errors. */
function FoundLines({ input, job, onOpen }: FoundLinesProps) {
  const isSearch = input.mode === 'grep';
  const found = useLoaded(`${JSON.stringify(input)} ${job.status}`, async (signal) => {
    await new Promise((resolve) => setTimeout(resolve, isSearch ? 200 : 0));
    signal.throwIfAborted();
    const path = `api/jobs/${job.id}/output`;
    return get<Found>(path, { ...input, raw: true, maxBytes: maxFoundBytes }, signal);
  });
  if (found.error !== undefined && found.value === undefined)
    return <ProblemBox error={found.error} />;
  const lines = (found.value?.text ?? '').split('\n').filter((line) => line !== '');
  const word = isSearch ? 'matching line' : 'relevant line';
  return (
    <section class="found" aria-label={isSearch ? 'Matches' : 'Errors'}>
      <p class="dim" aria-live="polite">
        {found.value ? plural(found.value.matches ?? lines.length, word) : 'Searching …'}
        {found.value?.omitted ? ` · ${found.value.omitted.reason}` : ''}
      </p>
      <div class="lines" tabIndex={0}>
        {lines.map((line, i) => {
          const [, place, text] = /^(\d+)[:-](.*)$/.exec(line) ?? [undefined, undefined, line];
          if (place === undefined)
            return (
              <div key={i} class="line">
                <span class="number" />
                <LineText line={line} />
              </div>
            );
          return (
            <button key={i} type="button" class="line" onClick={() => onOpen(Number(place))}>
              <span class="number" data-number={isSearch ? '→' : place} />
              <LineText line={text ?? ''} />
            </button>
          );
        })}
      </div>
    </section>
  );
}

function LineText({ line }: { line: string }) {
  return (
    <span class="text">
      {parseLine(line, {}).map((piece, i) => (
        <PieceText key={i} piece={piece} />
      ))}
    </span>
  );
}

/** Streams the exact bytes to a file. */
function DownloadButton({ href, name }: { href: string; name: string }) {
  const [isBusy, setBusy] = useState(false);
  const download = async () => {
    setBusy(true);
    try {
      const response = await fetch(href, { headers: { accept: 'application/octet-stream' } });
      const link = document.createElement('a');
      link.href = URL.createObjectURL(await response.blob());
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" disabled={isBusy} onClick={() => void download()}>
      {isBusy ? 'Reading …' : 'Download'}
    </button>
  );
}
