// A button that calls an operation: disabled while it runs, with a message about the result, and a question if it is dangerous.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { problemText } from '../api.ts';
import { Confirm } from './dialog.tsx';
import { showToast } from './toast.tsx';

interface ActionProps {
  label: string;
  /** Returns a message about what was done. */
  run(): Promise<string | void>;
  isPrimary?: boolean;
  class?: string;
  isDisabled?: boolean;
  /** Asked before it runs. */
  question?: { title: string; verb: string; text: ComponentChildren; isDangerous?: boolean };
}

export function Action({ label, run, isPrimary, isDisabled, question, class: name }: ActionProps) {
  const [isBusy, setBusy] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const act = async () => {
    setBusy(true);
    try {
      const message = await run();
      if (message) showToast(message);
      setAsking(false);
    } catch (error) {
      showToast(problemText(error), { isError: true });
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button
        type="button"
        class={name ?? (isPrimary ? 'primary' : '')}
        disabled={isBusy || isDisabled === true}
        onClick={() => (question ? setAsking(true) : void act())}
      >
        {label}
      </button>
      {question && isAsking ? (
        <Confirm
          title={question.title}
          verb={question.verb}
          isDangerous={question.isDangerous === true}
          isBusy={isBusy}
          onConfirm={() => void act()}
          onClose={() => setAsking(false)}
        >
          {question.text}
        </Confirm>
      ) : null}
    </>
  );
}
