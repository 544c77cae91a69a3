// A form that is generated from the input schema of an operation and sends it.
import { useState } from 'preact/hooks';
import { call, Problem, problemText } from '../../api.ts';
import { FieldRow, type Known } from './field.tsx';
import type { Form } from './schema.ts';
import { problemsOf, readForm, type Problems, type Texts } from './values.ts';

interface FormProps {
  form: Form;
  verb: string;
  /** Sent with every call, not shown. */
  fixed: Readonly<Record<string, unknown>>;
  initial: Texts;
  known: Readonly<Record<string, readonly Known[]>>;
  onDone(output: Record<string, unknown>): void;
}

export function SchemaForm({ form, verb, fixed, initial, known, onDone }: FormProps) {
  const [texts, setTexts] = useState<Texts>(initial);
  const [problems, setProblems] = useState<Problems>({});
  const [isBusy, setBusy] = useState(false);
  const [isOpen, setOpen] = useState(form.rare.some(({ name }) => initial[name] !== undefined));
  const show = (found: Problems) => {
    setProblems(found);
    const first = [...form.fields, ...form.rare].find(({ name }) => found[name] !== undefined);
    if (form.rare.some(({ name }) => found[name] !== undefined)) setOpen(true);
    if (first)
      requestAnimationFrame(() =>
        globalThis.document.querySelector<HTMLElement>(`#field-${first.name}`)?.focus(),
      );
  };
  const send = async () => {
    const { input, problems: found } = readForm(form, texts);
    if (Object.keys(found).length > 0) return show(found);
    setProblems({});
    setBusy(true);
    try {
      onDone(await call(form.method, ...addressed(form, { ...fixed, ...input })));
    } catch (error) {
      const issues = error instanceof Problem ? error.data.issues : undefined;
      show(
        Array.isArray(issues)
          ? problemsOf(form, issues as { path: string; message: string }[])
          : { '': problemText(error) },
      );
    } finally {
      setBusy(false);
    }
  };
  const rows = (fields: Form['fields']) =>
    fields.map((field) => (
      <FieldRow
        key={field.name}
        field={field}
        text={texts[field.name] ?? ''}
        problem={problems[field.name]}
        known={known[field.name] ?? []}
        onText={(text) => setTexts({ ...texts, [field.name]: text })}
      />
    ));
  return (
    <form
      class="panel schema-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {rows(form.fields)}
      {form.rare.length === 0 ? null : (
        <details
          class="folded"
          open={isOpen}
          onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
        >
          <summary>More fields ({form.rare.length})</summary>
          <div class="rare-fields">{rows(form.rare)}</div>
        </details>
      )}
      <p class="field-problem" role="alert">
        {problems['']}
      </p>
      <div class="actions">
        <button type="submit" class="primary" disabled={isBusy}>
          {verb}
        </button>
      </div>
    </form>
  );
}

/** The path with its fields, and the rest of the input as the body. */
function addressed(
  { path, fields }: Form,
  input: Readonly<Record<string, unknown>>,
): [path: string, body: Record<string, unknown>] {
  const body = { ...input };
  let address = path;
  for (const { name, isInPath } of fields) {
    if (!isInPath) continue;
    address = address.replace(`{${name}}`, encodeURIComponent(String(body[name])));
    delete body[name];
  }
  return [address, body];
}
