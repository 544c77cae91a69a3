// Copies a text and confirms it.
import { useState } from 'preact/hooks';
import { showToast } from './toast.tsx';

const confirmedMs = 1500;

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https or permission the clipboard is closed: the old way still works there.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    return isCopied;
  }
}

interface CopyProps {
  text: string | (() => string);
  label: string;
  class?: string;
}

export function CopyButton({ text, label, class: name }: CopyProps) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    const isDone = await copyText(typeof text === 'string' ? text : text());
    if (!isDone) return showToast('The browser does not allow copying here.', { isError: true });
    setCopied(true);
    setTimeout(() => setCopied(false), confirmedMs);
  };
  return (
    <button type="button" class={name} onClick={() => void copy()}>
      <span class="swap" aria-live="polite">
        <span class={isCopied ? 'hidden' : ''}>{label}</span>
        <span class={isCopied ? '' : 'hidden'} aria-hidden={!isCopied}>
          Copied
        </span>
      </span>
    </button>
  );
}

/** A command to paste, with its button. */
export function Command({ text, label = 'Copy' }: { text: string; label?: string }) {
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} label={label} />
    </div>
  );
}
