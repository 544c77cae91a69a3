// Renders lines of output with colours. Only blocks in or near the view have lines in the document.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { colorsOf, parseLine, type Look, type Piece } from '../ansi.ts';
import type { Block } from '../output-window.ts';
import { memo } from './memo.ts';

const lineHeight = 18;
const nearMargin = '800px 0px';

interface OutputBlockProps {
  block: Block;
  /** Number of its first line, if known. */
  firstLine: number | undefined;
  marked: number | undefined;
}

export const OutputBlock = memo(function OutputBlock(props: OutputBlockProps) {
  const { block, firstLine, marked } = props;
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  const [height, setHeight] = useState(block.lines.length * lineHeight);
  useLayoutEffect(() => {
    const element = place.current!;
    const observer = new IntersectionObserver(
      ([entry]) => {
        // Wrapped lines are higher than expected: the block keeps its height when it leaves.
        if (entry!.isIntersecting) setNear(true);
        else if (element.childElementCount > 0) {
          setHeight(element.offsetHeight);
          setNear(false);
        }
      },
      { root: element.closest('.lines'), rootMargin: nearMargin },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const look: Look = {};
  const isShown = isNear || marked !== undefined;
  return (
    <div
      class="block"
      data-key={block.key}
      ref={place}
      style={{ height: isShown ? '' : `${Math.max(height, block.lines.length * lineHeight)}px` }}
    >
      {isShown
        ? block.lines.map((line, i) => (
            <OutputLine
              key={i}
              pieces={parseLine(line, look)}
              number={firstLine === undefined ? undefined : firstLine + i}
              isMarked={i === marked}
            />
          ))
        : null}
    </div>
  );
});

interface OutputLineProps {
  pieces: Piece[];
  number: number | undefined;
  isMarked?: boolean;
}

export function OutputLine({ pieces, number, isMarked = false }: OutputLineProps) {
  return (
    <div class={isMarked ? 'line marked' : 'line'}>
      <span class="number" data-number={number ?? ''} />
      <span class="text">
        {pieces.map((piece, i) => (
          <PieceText key={i} piece={piece} />
        ))}
        {'\n'}
      </span>
    </div>
  );
}

export function PieceText({ piece }: { piece: Piece }) {
  const { text, href } = piece;
  const names = [
    piece.isBold ? 'b' : '',
    piece.isDim ? 'd' : '',
    piece.isItalic ? 'i' : '',
    piece.isUnderlined ? 'u' : '',
    piece.isStruck ? 's' : '',
  ].filter((name) => name !== '');
  const { color, background } = colorsOf(piece);
  if (names.length === 0 && color === undefined && background === undefined && href === undefined)
    return <>{text}</>;
  const style = {
    ...(color === undefined ? {} : { color }),
    ...(background === undefined ? {} : { backgroundColor: background }),
  };
  const name = names.map((one) => `a-${one}`).join(' ');
  if (href === undefined)
    return (
      <span class={name} style={style}>
        {text}
      </span>
    );
  return (
    <a class={name} style={style} href={href} target="_blank" rel="noopener noreferrer nofollow">
      {text}
    </a>
  );
}
