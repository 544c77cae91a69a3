// One stream of output: follows the end until the reader scrolls up, and reads further pieces while they scroll.
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { parseLine } from '../ansi.ts';
import { bytes } from '../format.ts';
import { OutputWindow } from '../output-window.ts';
import { OutputBlock, OutputLine } from './output-lines.tsx';
import { ProblemBox } from './problem.tsx';

interface OutputPaneProps {
  id: string;
  attempt: number | undefined;
  stream: string | undefined;
  isRunning: boolean;
  isWrapped: boolean;
  hasNumbers: boolean;
  /** Where to go: a byte from the search, a line from the error list. */
  target: { byte: number } | { line: number } | undefined;
}

const nearPixels = 1500;
const endPixels = 30;

export function OutputPane(props: OutputPaneProps) {
  const { id, attempt, stream, isRunning, isWrapped, hasNumbers, target } = props;
  const output = useMemo(() => new OutputWindow({ id, attempt, stream }), [id, attempt, stream]);
  const scroller = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ key: string; top: number } | undefined>(undefined);
  const isAtBottom = useRef(true);
  useEffect(() => {
    if (target && 'byte' in target) void output.openAt(target.byte);
    else if (target) void output.openLine(target.line);
    else void output.openEnd(isRunning);
  }, [output, target]);
  useEffect(() => () => output.close(), [output]);
  useEffect(() => {
    if (isRunning && output.isEnded.value) void output.openEnd(true);
  }, [isRunning]);

  useEffect(() => {
    // Messages above change the height: a reader at the end stays there.
    const element = scroller.current!;
    const resized = new ResizeObserver(() => {
      if (isAtBottom.current) element.scrollTop = element.scrollHeight;
    });
    resized.observe(element);
    return () => resized.disconnect();
  }, []);

  const blocks = output.blocks.value;
  const isFollowing = output.isFollowing.value;
  useLayoutEffect(() => {
    const element = scroller.current!;
    if (output.mark.value !== undefined && anchor.current === undefined) {
      element.querySelector('.marked')?.scrollIntoView({ block: 'center' });
    } else if (isFollowing || anchor.current === undefined) {
      if (target === undefined) toBottom(element);
    } else keepAnchor(element, anchor.current);
  }, [blocks, output.rest.value, isFollowing]);

  const onScroll = () => {
    const element = scroller.current!;
    const toEnd = element.scrollHeight - element.scrollTop - element.clientHeight;
    isAtBottom.current = toEnd <= endPixels;
    if (!isAtBottom.current) output.pause();
    else if (isRunning && !isFollowing && output.isAtEnd && output.isLoaded.value)
      void output.openEnd(true);
    anchor.current = isFollowing && toEnd <= endPixels ? undefined : findAnchor(element);
    if (element.scrollTop < nearPixels && !output.isAtStart) void output.readBefore();
    if (toEnd < nearPixels && !output.isAtEnd) void output.readAfter();
  };
  const toEnd = () => {
    anchor.current = undefined;
    void output.openEnd(isRunning).then(() => toBottom(scroller.current!));
  };
  const toStart = () => {
    void output.openStart().then(() => {
      scroller.current!.scrollTop = 0;
      anchor.current = findAnchor(scroller.current!);
    });
  };

  let line = output.firstLine.value;
  const mark = output.mark.value;
  const isEmpty = blocks.length === 0 && output.rest.value === '';
  return (
    <div class={`output ${isWrapped ? 'wrapped' : ''} ${hasNumbers ? '' : 'plain'}`}>
      {output.error.value === undefined ? null : <ProblemBox error={output.error.value} />}
      <div
        class="lines"
        ref={scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={stream === undefined ? 'Output' : `Output: ${stream}`}
      >
        {output.gap.value === undefined ? null : <p class="gap">⋯ {output.gap.value}</p>}
        {blocks.map((block) => {
          const first = line;
          if (line !== undefined) line += block.lines.length;
          return (
            <OutputBlock
              key={block.key}
              block={block}
              firstLine={first}
              marked={mark?.key === block.key ? mark.index : undefined}
            />
          );
        })}
        {output.rest.value === '' ? null : (
          <OutputLine pieces={parseLine(output.rest.value, {})} number={line} />
        )}
        {isEmpty && output.isLoaded.value ? (
          <p class="gap">{isRunning ? 'Nothing printed yet.' : 'This job printed nothing.'}</p>
        ) : null}
      </div>
      <div class="output-foot">
        <span aria-live="polite">
          {stream === undefined ? '' : `${stream} · `}
          {bytes(output.size.value)}
          {isRunning ? (isFollowing ? ' · following' : ' · paused') : ''}
        </span>
        <input
          type="range"
          class="position"
          aria-label="Position in the output"
          aria-valuetext={`${bytes(output.from.value)} of ${bytes(output.size.value)}`}
          min={0}
          max={1000}
          value={positionOf(output)}
          onChange={(event) => {
            const share = Number(event.currentTarget.value) / 1000;
            if (share >= 0.999) return toEnd();
            void output.openNear(Math.floor(share * output.size.value)).then(() => {
              scroller.current!.scrollTop = 0;
              anchor.current = findAnchor(scroller.current!);
            });
          }}
        />
        <button type="button" class="quiet" onClick={toStart}>
          Start
        </button>
        <button
          type="button"
          class={isRunning && !isFollowing ? 'primary' : 'quiet'}
          onClick={toEnd}
        >
          {isRunning && !isFollowing ? 'Follow' : 'End'}
        </button>
      </div>
    </div>
  );
}

/** Blocks get their real height when they come into view: the end moves once more in the next frames. */
function toBottom(element: HTMLElement, frames = 3): void {
  element.scrollTop = element.scrollHeight;
  if (frames > 0) requestAnimationFrame(() => toBottom(element, frames - 1));
}

function positionOf({ from, next, size, isAtEnd }: OutputWindow): number {
  if (isAtEnd || size.value === 0) return 1000;
  const middle = from.value === 0 ? 0 : (from.value + next.value) / 2;
  return Math.round((middle / size.value) * 1000);
}

/** The first block in view keeps its place when others are added or dropped around it. */
function findAnchor(element: HTMLElement): { key: string; top: number } | undefined {
  const top = element.getBoundingClientRect().top;
  for (const block of element.querySelectorAll<HTMLElement>('.block')) {
    const place = block.getBoundingClientRect();
    if (place.bottom > top) return { key: textKey(block), top: place.top };
  }
  return undefined;
}

function keepAnchor(element: HTMLElement, anchor: { key: string; top: number }): void {
  for (const block of element.querySelectorAll<HTMLElement>('.block')) {
    if (textKey(block) !== anchor.key) continue;
    element.scrollTop += block.getBoundingClientRect().top - anchor.top;
    return;
  }
}

const textKey = (block: HTMLElement): string => block.dataset.key ?? '';
