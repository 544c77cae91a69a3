// The filter as editable text with completion. The URL holds it, so that a reload or a link shows the same jobs.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get } from '../api.ts';
import { filterKeys, quoteValue } from '../query.ts';
import { go } from '../router.ts';
import { statuses, type JobLine, type Queue } from '../types.ts';

interface Suggestion {
  /** Replaces the word before the caret. */
  text: string;
  note?: string;
}

const keyNotes: Readonly<Record<string, string>> = {
  status: 'queued, running, failed …',
  kind: 'command, endpoint, web, escrow',
  queue: 'name of a queue',
  name: 'exact name',
  tag: 'has this tag',
  since: 'created in the last 1h, 24h, 7d, or since a date',
  before: 'created before',
  parent: 'children of this job',
};
const kindNames = ['command', 'endpoint', 'web', 'escrow'];
const periods = ['15m', '1h', '24h', '7d', '30d'];
const maxSuggestions = 8;
const jobIdPattern = /^job_[0-9a-hjkmnp-tv-z]{16}$/;

interface FilterBarProps {
  query: string;
  rows: readonly JobLine[];
  onQuery(query: string): void;
}

export function FilterBar({ query, rows, onQuery }: FilterBarProps) {
  const [text, setText] = useState(query);
  const [caret, setCaret] = useState<number | undefined>(undefined);
  const [chosen, setChosen] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  /** Applied with the completed text, before the next key: a later move would tear the typed word apart. */
  const caretAfterRender = useRef<number | undefined>(undefined);
  useLayoutEffect(() => {
    const at = caretAfterRender.current;
    caretAfterRender.current = undefined;
    if (at !== undefined) input.current?.setSelectionRange(at, at);
  }, [text]);
  const queues = useQueueNames(caret !== undefined);
  useEffect(() => setText(query), [query]);

  const suggestions = useMemo(
    () => (caret === undefined ? [] : suggest(wordBefore(text, caret), rows, queues)),
    [text, caret, rows, queues],
  );

  const apply = (value: string) => {
    setText(value);
    setCaret(undefined);
    onQuery(value.trim());
  };
  const complete = ({ text: word }: Suggestion) => {
    const at = caret ?? text.length;
    const start = at - wordBefore(text, at).length;
    const isOpen = word.endsWith(':');
    const value = `${text.slice(0, start)}${word}${isOpen ? '' : ' '}${text.slice(at).trimStart()}`;
    const next = start + word.length + (isOpen ? 0 : 1);
    setText(value);
    setChosen(0);
    setCaret(isOpen ? next : undefined);
    if (!isOpen) onQuery(value.trim());
    caretAfterRender.current = next;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      apply(text);
    } else if (event.key === 'Tab' && suggestions.length > 0 && !event.shiftKey) {
      event.preventDefault();
      complete(suggestions[chosen]!);
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setChosen((chosen + step + suggestions.length) % Math.max(1, suggestions.length));
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      if (caret === undefined) input.current?.blur();
      setCaret(undefined);
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    const id = event.clipboardData?.getData('text').trim() ?? '';
    if (text !== '' || !jobIdPattern.test(id)) return;
    event.preventDefault();
    go(`/jobs/${id}`);
  };
  return (
    <div class="filter">
      <svg viewBox="0 0 16 16" aria-hidden="true" class="filter-icon">
        <path d="M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.4 10.4L14 14" />
      </svg>
      <input
        ref={input}
        id="filter"
        type="text"
        role="combobox"
        aria-label="Filter jobs"
        aria-expanded={suggestions.length > 0}
        aria-controls="filter-suggestions"
        aria-autocomplete="list"
        {...(suggestions.length > 0 ? { 'aria-activedescendant': `suggestion-${chosen}` } : {})}
        autocomplete="off"
        spellcheck={false}
        placeholder="Filter: status:failed tag:ci since:24h text"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setCaret(event.currentTarget.selectionStart ?? undefined);
          setChosen(0);
        }}
        onFocus={(event) => setCaret(event.currentTarget.selectionStart ?? text.length)}
        onClick={(event) => setCaret(event.currentTarget.selectionStart ?? text.length)}
        onBlur={() => setCaret(undefined)}
        onPaste={onPaste}
        onKeyDown={onKeyDown}
      />
      {text === '' ? (
        <kbd aria-hidden="true">/</kbd>
      ) : (
        <button type="button" class="quiet" aria-label="Clear the filter" onClick={() => apply('')}>
          ×
        </button>
      )}
      <ul
        id="filter-suggestions"
        class="suggestions"
        role="listbox"
        aria-label="Completions"
        hidden={suggestions.length === 0}
      >
        {suggestions.map((suggestion, i) => (
          <li
            key={suggestion.text}
            id={`suggestion-${i}`}
            role="option"
            aria-selected={i === chosen}
            class={i === chosen ? 'on' : ''}
            onMouseDown={(event) => {
              event.preventDefault();
              complete(suggestion);
            }}
          >
            <code>{suggestion.text}</code>
            <span>{suggestion.note}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function wordBefore(text: string, caret: number): string {
  return /(?:\w+:"[^"]*|\S*)$/.exec(text.slice(0, caret))![0];
}

function suggest(word: string, rows: readonly JobLine[], queues: string[]): Suggestion[] {
  const mark = word.indexOf(':');
  if (mark < 0) {
    const keys = filterKeys.filter((key) => key.startsWith(word.toLowerCase()));
    return keys.map((key) => ({ text: `${key}:`, note: keyNotes[key] ?? '' }));
  }
  const key = word.slice(0, mark);
  const typed = word.slice(mark + 1);
  const isList = key === 'status' || key === 'kind' || key === 'tag';
  const comma = isList ? typed.lastIndexOf(',') + 1 : 0;
  const part = typed.slice(comma).toLowerCase();
  const earlier = typed.slice(0, comma).split(',');
  return valuesOf(key, rows, queues)
    .filter((value) => value.toLowerCase().includes(part) && !earlier.includes(value))
    .slice(0, maxSuggestions)
    .map((value) => ({ text: `${key}:${typed.slice(0, comma)}${quoteValue(value)}` }));
}

function valuesOf(key: string, rows: readonly JobLine[], queues: string[]): string[] {
  const distinct = (values: (string | undefined)[]) => [
    ...new Set(values.filter((value) => value !== undefined)),
  ];
  switch (key) {
    case 'status':
      return [...statuses];
    case 'kind':
      return kindNames;
    case 'queue':
      return distinct([...queues, ...rows.map(({ queue }) => queue)]);
    case 'name':
      return distinct(rows.map(({ name }) => name));
    case 'tag':
      return distinct(rows.flatMap(({ tags = [] }) => tags));
    case 'since':
    case 'before':
      return periods;
    default:
      return [];
  }
}

function useQueueNames(isNeeded: boolean): string[] {
  const [names, setNames] = useState<string[]>([]);
  const isLoaded = useRef(false);
  useEffect(() => {
    if (!isNeeded || isLoaded.current) return;
    isLoaded.current = true;
    get<{ queues: Queue[] }>('api/queues').then(
      ({ queues }) => setNames(queues.map(({ name }) => name)),
      () => {},
    );
  }, [isNeeded]);
  return names;
}
