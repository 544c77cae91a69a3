// A JSON value to read and copy. It is text: markup in it stays visible.
import { CopyButton } from './copy.tsx';

const maxShownChars = 500_000;

export function Json({ value }: { value: unknown }) {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? 'null');
  return (
    <div class="json">
      <CopyButton text={text} label="Copy" class="json-copy" />
      <pre tabIndex={0}>
        {text.length > maxShownChars ? `${text.slice(0, maxShownChars)}\n…` : text}
      </pre>
    </div>
  );
}
