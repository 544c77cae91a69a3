// Short messages about what an action did. Screen readers announce them.
import { signal } from '@preact/signals';

interface Toast {
  id: number;
  text: string;
  isError: boolean;
}

const shownMs = 6000;
const toasts = signal<Toast[]>([]);
let last = 0;

export function showToast(text: string, { isError = false } = {}): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-2), { id, text, isError }];
  setTimeout(() => dismiss(id), isError ? 2 * shownMs : shownMs);
}

const dismiss = (id: number): void => {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
};

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, isError }) => (
        <div key={id} class={isError ? 'toast bad-edge' : 'toast'}>
          <span>{text}</span>
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
