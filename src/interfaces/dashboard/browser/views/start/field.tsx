// One field of a generated form.
import type { Field } from './schema.ts';

interface FieldProps {
  field: Field;
  text: string;
  problem: string | undefined;
  /** Values to choose from, for names of things that exist. */
  known: readonly Known[];
  onText(text: string): void;
}

export interface Known {
  value: string;
  label: string;
}

export function FieldRow(props: FieldProps) {
  const { field, problem } = props;
  const id = `field-${field.name}`;
  const { control } = field;
  const isFlag = control.type === 'flag';
  return (
    <div class={isFlag ? 'field flag' : 'field'}>
      {control.type === 'several' ? (
        <>
          <b id={`${id}-label`}>{field.label}</b>
          <Several {...props} id={id} options={control.options.map(String)} />
        </>
      ) : (
        <>
          <label for={id}>
            {field.label}
            {field.isNeeded ? <span class="needed"> required</span> : null}
          </label>
          <Control {...props} id={id} />
        </>
      )}
      <small id={`${id}-note`} class="dim">
        {field.description}
      </small>
      <p id={`${id}-problem`} class="field-problem" role="alert">
        {problem}
      </p>
    </div>
  );
}

const placeholders: Readonly<Record<string, string>> = {
  lines: 'One per line',
  pairs: 'NAME=value, one per line',
  json: '{ }',
  amount: '2.50',
};

function Control({ field, text, problem, known, id, onText }: FieldProps & { id: string }) {
  const { control, name } = field;
  const common = {
    id,
    name,
    value: text,
    'aria-invalid': problem !== undefined,
    'aria-describedby': `${id}-note ${id}-problem`,
  };
  const onInput = ({ currentTarget }: { currentTarget: { value: string } }) =>
    onText(currentTarget.value);
  const placeholder = placeholders[control.type] ?? '';
  switch (control.type) {
    case 'flag':
      return (
        <input
          {...common}
          value="true"
          type="checkbox"
          checked={text === 'true'}
          onChange={({ currentTarget }) => onText(currentTarget.checked ? 'true' : '')}
        />
      );
    case 'choice':
      return (
        <select {...common} onChange={onInput}>
          <option value="">{field.isNeeded ? '' : 'default'}</option>
          {control.options.map((option) => (
            <option key={String(option)} value={String(option)}>
              {String(option)}
            </option>
          ))}
        </select>
      );
    case 'long':
    case 'lines':
    case 'pairs':
    case 'json':
      return (
        <textarea
          {...common}
          class={control.type === 'long' ? '' : 'mono'}
          rows={control.type === 'json' ? 5 : 3}
          spellcheck={control.type === 'long'}
          placeholder={placeholder}
          onInput={onInput}
        />
      );
    case 'time':
      return <input {...common} type="datetime-local" onInput={onInput} />;
    case 'text':
    case 'number':
    case 'amount':
    case 'several':
      return (
        <>
          <input
            {...common}
            type="text"
            inputMode={control.type === 'number' || control.type === 'amount' ? 'decimal' : 'text'}
            list={known.length > 0 ? `${id}-known` : undefined}
            placeholder={placeholder}
            autocomplete="off"
            onInput={onInput}
          />
          {known.length > 0 ? (
            <datalist id={`${id}-known`}>
              {known.map(({ value, label }) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </datalist>
          ) : null}
        </>
      );
  }
}

function Several({ text, id, options, onText }: FieldProps & { id: string; options: string[] }) {
  const chosen = text.split('\n').filter((one) => one !== '');
  return (
    <div class="several" role="group" id={id} tabIndex={-1} aria-labelledby={`${id}-label`}>
      {options.map((option) => (
        <label key={option}>
          <input
            type="checkbox"
            checked={chosen.includes(option)}
            onChange={({ currentTarget }) =>
              onText(
                options
                  .filter((one) => (one === option ? currentTarget.checked : chosen.includes(one)))
                  .join('\n'),
              )
            }
          />{' '}
          {option}
        </label>
      ))}
    </div>
  );
}
