// Masks values that look like secrets in output for a model. The files keep the original. Masking never makes text longer.
const mask = '***';
/** Shorter secret values are common words. */
const minValueChars = 6;

interface MaskRules {
  /** Whether a variable of this name holds a secret. */
  isSecret(name: string): boolean;
}

/** Tokens with a fixed prefix. */
const tokens = new RegExp(
  [
    String.raw`gh[oprsu]_[A-Za-z0-9]{16,}`,
    String.raw`github_pat_\w{20,}`,
    String.raw`gl(?:pat|ptt|cbt|rt)-[\w-]{16,}`,
    String.raw`sk-[A-Za-z0-9_-]{16,}`,
    String.raw`[rs]k_(?:live|test)_[A-Za-z0-9]{10,}`,
    String.raw`xox[abeoprs]-[\w-]{10,}`,
    String.raw`(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])`,
    String.raw`AIza[\w-]{35}`,
    String.raw`ya29\.[\w-]{20,}`,
    String.raw`npm_[A-Za-z0-9]{30,}`,
    String.raw`pypi-[\w-]{40,}`,
    String.raw`hf_[A-Za-z0-9]{30,}`,
    String.raw`SG\.[\w-]{16,}\.[\w-]{16,}`,
    String.raw`do[opr]_v1_[a-f0-9]{40,}`,
    String.raw`shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}`,
    String.raw`AGE-SECRET-KEY-1[A-Z0-9]{50,}`,
    String.raw`errand_[A-Za-z0-9_-]{30,}`,
    String.raw`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}`,
  ]
    .map((form) => `(?<![A-Za-z0-9_])${form}`)
    .join('|'),
  'g',
);
const addressPassword = /(?<=:\/\/[^\s:/@]{0,100}:)[^\s/@]{3,200}(?=@)/g;
const authorization = /\b(?<scheme>Bearer|Basic|token) +[A-Za-z0-9._~+/=-]{16,}/g;
const privateKey =
  /(?<=-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----)[\s\S]+?(?=-----END|$)/g;
/** The end of a key whose beginning is not shown. */
const privateKeyEnd =
  /^(?:[A-Za-z0-9+/=]{16,}\r?\n)+(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)/gm;

const valuePattern = String.raw`"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"'\`,;&)}\]]{3,}`;
/** `NAME=value`, `--name=value`, `name: "value"`, `"name": "value"`. */
const assignment = new RegExp(
  String.raw`(?<![\w.$-])(?<name>["']?-{0,2}[A-Za-z_][\w.-]{0,100}["']?)(?<sign>=| ?[:=] ?)(?<value>${valuePattern})`,
  'g',
);
/** `--password value`. */
const flag =
  /(?<![\w-])(?<name>--[a-z][a-z-]{0,60}) (?<value>"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"'-][^\s"']{2,})/g;

const secretWord =
  /(?:^|[._-])(?:token|secret|password|passwd|passphrase|pwd|api[._-]?key|access[._-]?key|private[._-]?key|secret[._-]?key)$/i;
const camelSecret =
  /(?:[a-z](?:Token|Secret|Password|ApiKey|AccessKey|PrivateKey|SecretKey)|^apiKey)$/;
/** A reference to a value, code, or an existing mask. */
const noValue = /^["']?(?:[$<*{([%]|(?:null|none|undefined|true|false|xxx+)\b)/i;

export function maskSecrets(text: string, { isSecret }: MaskRules, values: readonly string[] = []) {
  let masked = text;
  for (const secret of values)
    if (secret.length >= minValueChars) masked = masked.replaceAll(secret, mask);
  masked = masked
    .replace(privateKey, (body) => (body.length > 16 ? `\n${mask}\n` : body))
    .replace(privateKeyEnd, `${mask}\n`)
    .replace(tokens, mask)
    .replace(addressPassword, mask)
    .replace(authorization, `$<scheme> ${mask}`);
  return masked
    .replace(assignment, (whole: string, ...groups: unknown[]) => {
      const found = groups.at(-1) as { name: string; sign: string; value: string };
      return isAssigned(found, isSecret)
        ? `${found.name}${found.sign}${maskValue(found.value)}`
        : whole;
    })
    .replace(flag, (whole: string, ...groups: unknown[]) => {
      const found = groups.at(-1) as { name: string; value: string };
      const isHidden = secretWord.test(found.name) && !noValue.test(found.value);
      return isHidden ? `${found.name} ${maskValue(found.value)}` : whole;
    });
}

function isAssigned(
  { name: written, sign, value }: { name: string; sign: string; value: string },
  isSecret: MaskRules['isSecret'],
): boolean {
  if (noValue.test(value)) return false;
  const name = written.replaceAll(/^["']?-{0,2}|["']$/g, '');
  // As in the output of `env` and in files of variables.
  if (/^[A-Z][A-Z0-9_]*$/.test(name)) return isSecret(name);
  if (!secretWord.test(name) && !camelSecret.test(name)) return false;
  if (/^["']/.test(value)) return true;
  // Code and prose: `token: string`, `f(token=token)`.
  return sign === '=' ? /\d/.test(value) : /\d/.test(value) && value.length >= 8;
}

function maskValue(value: string): string {
  const quote = /^["']/.exec(value)?.[0] ?? '';
  return `${quote}${mask}${quote}`;
}
