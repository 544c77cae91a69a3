// Dialogs that change a wallet: its limits, and new credit from the operator.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { patch, post, problemText } from '../../api.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { showToast } from '../../parts/toast.tsx';
import type { Wallet } from './types.ts';

interface WalletProps {
  wallet: Wallet;
  onChanged(): void;
}

export function LimitsButton({ wallet, onChanged }: WalletProps) {
  const { perTransaction = '', perDay = '' } = wallet.limits;
  const [values, setValues] = useState({ perTransaction, perDay });
  const save = async () => {
    const limit = (text: string) => (text.trim() === '' ? null : text.trim());
    await patch(`api/wallets/${wallet.id}`, {
      limits: { perTransaction: limit(values.perTransaction), perDay: limit(values.perDay) },
    });
    onChanged();
  };
  return (
    <FormButton label="Limits…" title="Limits" onSend={save}>
      <Amount
        label="Per payment; empty: no limit"
        value={values.perTransaction}
        onValue={(text) => setValues({ ...values, perTransaction: text })}
      />
      <Amount
        label="Per day (UTC); empty: no limit"
        value={values.perDay}
        onValue={(text) => setValues({ ...values, perDay: text })}
      />
    </FormButton>
  );
}

export function MintButton({ wallet, onChanged }: WalletProps) {
  const [amount, setAmount] = useState('');
  const [transferId, setTransferId] = useState<string>(() => crypto.randomUUID());
  const mint = async () => {
    await post('api/escrow/mint', { wallet: wallet.id, amount: amount.trim(), transferId });
    setTransferId(crypto.randomUUID());
    onChanged();
  };
  return (
    <FormButton label="Add credit…" title="Add credit" onSend={mint}>
      <p>Internal credit of this server. It is not money and cannot be paid out.</p>
      <Amount label="Amount, like 2.50" value={amount} onValue={setAmount} />
    </FormButton>
  );
}

interface AmountProps {
  label: string;
  value: string;
  onValue(value: string): void;
}

function Amount({ label, value, onValue }: AmountProps) {
  return (
    <label>
      {label}
      <input
        type="text"
        inputMode="decimal"
        value={value}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
      />
    </label>
  );
}

interface FormButtonProps {
  label: string;
  title: string;
  onSend(): Promise<void>;
  children: ComponentChildren;
}

function FormButton({ label, title, onSend, children }: FormButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const send = async () => {
    setProblem(undefined);
    try {
      await onSend();
      setOpen(false);
      showToast(`${title}: done.`);
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen ? (
        <Dialog title={title} onClose={() => setOpen(false)}>
          <form
            class="action-form"
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            <h2>{title}</h2>
            {children}
            <p class="field-problem" role="alert">
              {problem}
            </p>
            <div class="dialog-actions">
              <button type="button" onClick={() => setOpen(false)}>
                Back
              </button>
              <button type="submit" class="primary">
                {title}
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
    </>
  );
}
