// Which rows of a long list are in view. All rows have the same height, so that nothing has to be measured.
import type { RefObject } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';

const extraRows = 12;

interface VisibleRows {
  first: number;
  end: number;
}

export function useVisibleRows(
  scroller: RefObject<HTMLElement | null>,
  rowHeight: number,
  length: number,
  onScroll: (top: number, distanceToEnd: number) => void,
): VisibleRows {
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = scroller.current!;
    const read = () => {
      setView({ top: element.scrollTop, height: element.clientHeight });
      onScroll(element.scrollTop, element.scrollHeight - element.scrollTop - element.clientHeight);
    };
    read();
    const resized = new ResizeObserver(read);
    resized.observe(element);
    element.addEventListener('scroll', read, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener('scroll', read);
    };
  }, [scroller, rowHeight, length, onScroll]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - extraRows);
  const end = Math.min(length, Math.ceil((view.top + view.height) / rowHeight) + extraRows);
  return { first: Math.min(first, end), end };
}
