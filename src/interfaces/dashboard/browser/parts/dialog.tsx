// A modal dialog. The browser's own element keeps the focus inside and closes on Escape.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface DialogProps {
  title: string;
  onClose(): void;
  children: ComponentChildren;
  class?: string;
}

export function Dialog({ title, onClose, children, class: name = '' }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current!.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog ${name}`}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current!.close();
      }}
    >
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  verb: string;
  isDangerous?: boolean;
  isBusy?: boolean;
  onConfirm(): void;
  onClose(): void;
  children: ComponentChildren;
}

export function Confirm(props: ConfirmProps) {
  const { title, verb, isDangerous, isBusy, onConfirm, onClose, children } = props;
  return (
    <Dialog title={title} onClose={onClose}>
      <h2>{title}</h2>
      {children}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          Back
        </button>
        <button
          type="button"
          class={isDangerous ? 'danger' : 'primary'}
          disabled={isBusy === true}
          onClick={onConfirm}
        >
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
