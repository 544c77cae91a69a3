// Keyboard shortcuts. They never fire while somebody types into a field or a terminal.
import { useEffect, useRef } from 'preact/hooks';

type Handlers = Readonly<Record<string, () => unknown>>;

export function useKeys(handlers: Handlers): void {
  const current = useRef(handlers);
  current.current = handlers;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
      // Enter and Space belong to the focused button or link.
      if (
        event.key === 'Enter' &&
        (event.target as Element).closest?.('a, button, summary, select')
      )
        return;
      const handler = Object.hasOwn(current.current, event.key)
        ? current.current[event.key]
        : undefined;
      if (!handler) return;
      event.preventDefault();
      handler();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, []);
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement)
    return target.type !== 'checkbox' && target.type !== 'range';
  return target.matches('textarea, select, [contenteditable]') || target.closest('.xterm') !== null;
}
