// Confirms a change of several jobs with the exact number and the filter it applies to.
import { useState } from 'preact/hooks';
import { Problem, problemText } from '../api.ts';
import { bulkWords, changeJobs, previewChange, type BulkAction, type BulkTarget } from '../bulk.ts';
import { count, plural } from '../format.ts';
import { go } from '../router.ts';
import { Confirm } from './dialog.tsx';
import { useLoaded } from './loading.ts';
import { ProblemBox } from './problem.tsx';
import { showToast } from './toast.tsx';

interface BulkDialogProps {
  action: BulkAction;
  target: BulkTarget;
  onClose(isDone: boolean): void;
}

export function BulkDialog({ action, target, onClose }: BulkDialogProps) {
  const { verb, done } = bulkWords[action];
  const [isBusy, setBusy] = useState(false);
  const preview = useLoaded(`${action} ${target.description}`, () => previewChange(action, target));
  const { value } = preview;
  const confirm = async () => {
    setBusy(true);
    try {
      const { changed, id } = await changeJobs(action, target, value!.matched);
      if (id === undefined) showToast(`${done} ${plural(changed, 'job')}.`);
      else {
        showToast('The change runs as a job. This page shows its progress.');
        go(`/jobs/${id}`);
      }
      onClose(true);
    } catch (error) {
      setBusy(false);
      // Somebody else changed jobs in between: the new number has to be confirmed.
      if (error instanceof Problem && error.status === 409) preview.reload();
      showToast(problemText(error), { isError: true });
    }
  };
  const title = value
    ? `${verb} ${plural(value.changed, 'job')}?`
    : `${verb} ${target.description}?`;
  return (
    <Confirm
      title={title}
      verb={value ? `${verb} ${count(value.changed)}` : verb}
      isDangerous={action === 'delete' || action === 'cancel'}
      isBusy={isBusy || !value || value.changed === 0}
      onConfirm={() => void confirm()}
      onClose={() => onClose(false)}
    >
      <p>
        Applies to <code class="pinned-filter">{target.description}</code>
        {value ? `: ${plural(value.matched, 'job')} now.` : ' …'}
      </p>
      {value?.skipped.map(({ reason, count: n }) => (
        <p key={reason} class="dim">
          {plural(n, 'job')} not affected: {reason}
        </p>
      ))}
      {action === 'delete' ? (
        <p>Output, results and history are deleted. You cannot undo this.</p>
      ) : null}
      {preview.error === undefined ? null : <ProblemBox error={preview.error} />}
    </Confirm>
  );
}
