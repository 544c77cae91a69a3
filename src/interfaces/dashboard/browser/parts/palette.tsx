// Ctrl-K: go to a view or find a job by name, text or id.
import { useEffect, useState } from 'preact/hooks';
import { get } from '../api.ts';
import { shownAreas } from '../areas.tsx';
import { go } from '../router.ts';
import type { JobLine } from '../types.ts';
import { Dialog } from './dialog.tsx';
import { titleOf } from './job-rows.tsx';
import { StatusMark } from './status.tsx';

interface Entry {
  to: string;
  label: string;
  job?: JobLine;
}

const jobLists: Entry[] = [
  { to: '/jobs?q=status%3Arunning', label: 'Running jobs' },
  { to: '/jobs?q=status%3Afailed%2Ctimed_out', label: 'Failed jobs' },
  { to: '/jobs?q=status%3Aqueued', label: 'Waiting jobs' },
];
const typingMs = 150;
const maxJobs = 8;

export function Palette({ onClose }: { onClose(): void }) {
  const [text, setText] = useState('');
  const [jobs, setJobs] = useState<JobLine[]>([]);
  const [chosen, setChosen] = useState(0);
  const words = text.trim();
  useEffect(() => {
    if (words === '') return setJobs([]);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get<{ jobs: JobLine[] }>('api/jobs', { text: words, limit: maxJobs }, abort.signal).then(
        (found) => setJobs(found.jobs),
        () => {},
      );
    }, typingMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [words]);
  const entries: Entry[] = [
    ...(/^job_\w+$/.test(words) ? [{ to: `/jobs/${words}`, label: `Open ${words}` }] : []),
    ...[...shownAreas(), ...jobLists].filter(({ label }) =>
      label.toLowerCase().includes(words.toLowerCase()),
    ),
    ...jobs.map((job) => ({ to: `/jobs/${job.id}`, label: titleOf(job), job })),
    ...(words === ''
      ? []
      : [{ to: `/jobs?q=${encodeURIComponent(words)}`, label: `Filter jobs by “${words}”` }]),
  ];
  const at = Math.min(chosen, entries.length - 1);
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    go(entry.to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') open(entries[at]);
    else if (event.key === 'ArrowDown') setChosen((at + 1) % entries.length);
    else if (event.key === 'ArrowUp') setChosen((at - 1 + entries.length) % entries.length);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" class="palette" onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label="View, job name, text or id"
        aria-expanded="true"
        aria-controls="palette-entries"
        aria-activedescendant={`entry-${at}`}
        placeholder="View, job name, text or job_…"
        autocomplete="off"
        autoFocus
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-entries" role="listbox" aria-label="Results">
        {entries.map((entry, i) => (
          <li
            key={`${entry.to} ${entry.label}`}
            id={`entry-${i}`}
            role="option"
            aria-selected={i === at}
            class={i === at ? 'on' : ''}
            onClick={() => open(entry)}
          >
            <span class="entry-label">{entry.label}</span>
            {entry.job ? <StatusMark status={entry.job.status} stage={entry.job.stage} /> : null}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
