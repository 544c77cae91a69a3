// What one wallet of the session may do with a job. A delivery that waits for a person's approval stands out.
import { useState } from 'preact/hooks';
import { microOf, units } from '../../amounts.ts';
import { post, problemText } from '../../api.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { showToast } from '../../parts/toast.tsx';
import { type Wallet, type Work } from './types.ts';

export interface Role {
  wallet: Wallet;
  roles: string[];
  actions: string[];
}

type Values = Readonly<Record<string, string>>;

interface ActionForm {
  label: string;
  /** What happens. */
  note: string;
  operation: string;
  fields: readonly ('reason' | 'content' | 'amount' | 'resolution')[];
  isReasonNeeded?: boolean;
  isDangerous?: boolean;
  input(values: Values, work: Work): Record<string, unknown>;
}

const reasonOf = ({ reason = '' }: Values) => (reason === '' ? {} : { reason });

const forms: Readonly<Record<string, ActionForm>> = {
  fund: {
    label: 'Fund…',
    note: 'The amount moves from your wallet into escrow.',
    operation: 'fund',
    fields: [],
    input: (_, work) => (work.proposed ? { expectedBudget: work.proposed.budget } : {}),
  },
  counter: {
    label: 'Propose another amount…',
    note: 'Moves no money. The other side sees the proposal.',
    operation: 'counter',
    fields: ['amount'],
    input: ({ amount = '' }) => ({ budget: microOf(amount) }),
  },
  submit: {
    label: 'Deliver…',
    note: 'The other side reads this text and decides.',
    operation: 'submit',
    fields: ['content'],
    input: ({ content }) => ({ content }),
  },
  approve: {
    label: 'Approve…',
    note: 'The provider is paid. This cannot be undone.',
    operation: 'evaluate',
    fields: ['reason'],
    isReasonNeeded: true,
    input: (values, work) => ({
      verdict: 'approve',
      ...reasonOf(values),
      ...(work.deliverable ? { contentHash: work.deliverable.hash } : {}),
    }),
  },
  reject: {
    label: 'Reject…',
    note: 'The client gets the money back.',
    operation: 'evaluate',
    fields: ['reason'],
    isReasonNeeded: true,
    isDangerous: true,
    input: (values) => ({ verdict: 'reject', ...reasonOf(values) }),
  },
  dispute: {
    label: 'Dispute…',
    note: 'The arbiter decides. The money stays in escrow until then.',
    operation: 'dispute',
    fields: ['reason'],
    isReasonNeeded: true,
    input: reasonOf,
  },
  resolve: {
    label: 'Decide the dispute…',
    note: 'The decision is final.',
    operation: 'dispute',
    fields: ['resolution', 'reason'],
    isReasonNeeded: true,
    input: (values) => ({ ...reasonOf(values), resolution: values.resolution }),
  },
  cancel: {
    label: 'Withdraw…',
    note: 'The job ends without a delivery.',
    operation: 'decline',
    fields: ['reason'],
    isDangerous: true,
    input: reasonOf,
  },
  decline: {
    label: 'Decline…',
    note: 'The job ends. The client gets everything back.',
    operation: 'decline',
    fields: ['reason'],
    isDangerous: true,
    input: reasonOf,
  },
  conclude: {
    label: 'Apply the deadline',
    note: 'What was agreed for a missed deadline happens now.',
    operation: 'refund',
    fields: [],
    input: () => ({}),
  },
};

interface RoleActionsProps {
  work: Work;
  role: Role;
  onChanged(): void;
}

export function RoleActions({ work, role, onChanged }: RoleActionsProps) {
  const [asked, setAsked] = useState<string | undefined>(undefined);
  const { wallet, roles, actions } = role;
  const known = actions.filter((name) => Object.hasOwn(forms, name));
  if (known.length === 0) return null;
  const isApproval = actions.includes('approve') && work.stage === 'submitted';
  return (
    <div class={isApproval ? 'panel turn approval' : 'panel turn'}>
      <p>
        {isApproval ? (
          <strong>
            A payment of {work.held === undefined ? work.amount : units(work.held)} {work.currency}{' '}
            waits for your decision.{' '}
          </strong>
        ) : null}
        As {roles.join(' and ')} <span class="dim">({wallet.name ?? wallet.id})</span>
        {work.proposed && actions.includes('fund') ? (
          <>
            : {work.proposed.by} proposed <b>{work.proposed.amount}</b>; funding accepts it.
          </>
        ) : null}
      </p>
      <div class="actions">
        {known.map((name) => (
          <button
            key={name}
            type="button"
            class={name === 'approve' || (name === 'fund' && !isApproval) ? 'primary' : ''}
            onClick={() => setAsked(name)}
          >
            {forms[name]!.label}
          </button>
        ))}
      </div>
      {asked === undefined ? null : (
        <ActionDialog
          form={forms[asked]!}
          work={work}
          wallet={wallet}
          onClose={(isDone) => {
            setAsked(undefined);
            if (isDone) onChanged();
          }}
        />
      )}
    </div>
  );
}

interface ActionDialogProps {
  form: ActionForm;
  work: Work;
  wallet: Wallet;
  onClose(isDone: boolean): void;
}

const labels = {
  reason: 'Reason',
  content: 'Content',
  amount: 'Amount, like 2.50',
  resolution: 'Decision',
};

function ActionDialog({ form, work, wallet, onClose }: ActionDialogProps) {
  const [values, setValues] = useState<Values>({ resolution: 'release' });
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const title = form.label.replace('…', '');
  const send = async () => {
    setBusy(true);
    try {
      const input = { ...form.input(values, work), wallet: wallet.id };
      await post(`api/work/${work.id}/${form.operation}`, input);
      showToast(`${title}: done.`);
      onClose(true);
    } catch (error) {
      setProblem(problemText(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={() => onClose(false)}>
      <form
        class="action-form"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <h2>
          {title}: {work.amount} {work.currency}
        </h2>
        <p>{form.note}</p>
        {form.fields.map((name) => (
          <label key={name}>
            {labels[name]}
            <Field
              name={name}
              value={values[name] ?? ''}
              isNeeded={name !== 'reason' || form.isReasonNeeded === true}
              onValue={(value) => setValues({ ...values, [name]: value })}
            />
          </label>
        ))}
        <p class="field-problem" role="alert">
          {problem}
        </p>
        <div class="dialog-actions">
          <button type="button" onClick={() => onClose(false)}>
            Back
          </button>
          <button type="submit" class={form.isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
            {title}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  name: keyof typeof labels;
  value: string;
  isNeeded: boolean;
  onValue(value: string): void;
}

function Field({ name, value, isNeeded, onValue }: FieldProps) {
  if (name === 'resolution')
    return (
      <select value={value} onChange={({ currentTarget }) => onValue(currentTarget.value)}>
        <option value="release">Pay the provider</option>
        <option value="refund">Return everything to the client</option>
        <option value="split">Split as agreed</option>
      </select>
    );
  if (name === 'amount')
    return (
      <input
        type="text"
        inputMode="decimal"
        required
        pattern="[0-9]{1,9}([.][0-9]{1,6})?"
        value={value}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
      />
    );
  return (
    <textarea
      rows={name === 'content' ? 10 : 3}
      required={isNeeded}
      value={value}
      onInput={({ currentTarget }) => onValue(currentTarget.value)}
    />
  );
}
