// Classifies a single line by the wording of many programs. The order of the checks matters: signs of success come first.
// Rules for a single tool carry its name, so that a test can measure the result without them.

/**
 * `error`: shown. `warning`: shown while there are few or no errors. `heading`: names what the errors below it are about.
 * `detail`, `frame`, `library`, `code`: belong to an error above them. `note`: belongs to an error above it, never shown.
 */
export type LineKind =
  | 'error'
  | 'warning'
  | 'heading'
  | 'detail'
  | 'frame'
  | 'library'
  | 'code'
  | 'note'
  | 'fine'
  | 'plain';

interface ToolRule {
  tools: readonly string[];
  kind: LineKind;
  pattern: RegExp;
}

/** A path with an extension (or a well-known name without one) and a line: `a.c:3:7`, `a.ts(3,7)`, `A.java:[3,7]`, `Makefile:5`. */
const path = String.raw`(?:[A-Za-z]:)?(?:[\w@~+.-]{0,100}[/\\]){0,30}[\w@~+.-]{0,100}(?:\.[A-Za-z]\w{0,9}|Makefile|Dockerfile|Jenkinsfile|Rakefile|Gemfile)`;
const place = String.raw`(?::\d+(?::\d+)?|\(\d+(?:[,:]\d+)?\)|:\[\d+,\d+\])`;
const located = new RegExp(`^${path}${place}`);
const locatedColumn = new RegExp(
  String.raw`^${path}(?::\d+:\d+|\(\d+[,:]\d+\)|:\[\d+,\d+\])(?:[:\s-]|$)`,
);
/** Interpreters print their name before the location: `lua5.4: a.lua:3: message`. */
const locatedLine = new RegExp(String.raw`^(?:[\w+-][\w.+-]{0,30}: )?${path}(?::\d+|\(\d+\)):? `);
/** A location anywhere in a line. Such lines are never folded. */
const mentioned = new RegExp(
  String.raw`(?:^|[\s("'\[<])(?:file:\/\/)?${path}${place}|\.\w{1,8}['"]?,? (?:on |at )?line:? \d|^\s+\d+:\d+\s`,
);

/** True if the line starts with `file:line`. */
export const isLocated = (text: string): boolean => located.test(text);

export const hasPlace = (text: string): boolean => /\d/.test(text) && mentioned.test(text);

const fine = new RegExp(
  [
    String.raw`^\s*(?:[✓✔√☑✅]|ok \d|=== |--- (?:PASS|SKIP)|PASS\b|\[ *(?:OK|PASSED|RUN) *\]|# Subtest)`,
    String.raw`(?:\b|(?=\.))(?:ok|OK|PASS|PASSED|Passed|passed|SKIPPED|skipped|(?:\.\.\.|-) ?done)[.!]?(?: +\(?[\d.]+ ?(?:m?s|sec)\)?| +\[ *\d+%\])?\s*$`,
    String.raw`^\s*\$ |^-- (?:Check|Detect|Looking|Performing|Found)|^Get:\d|^(?:Setting up|Unpacking|Selecting|Preparing to unpack) `,
    String.raw`^\[ *\d+%\] |^(?:For more (?:information|details)|Some errors have detailed)\b`,
    String.raw`^(?:diff --git |commit [0-9a-f]{7,}|index [0-9a-f]+\.\.)|^[\s\d.kMGT:-]*--:--:--[\s\d.kMGT:-]*$|^\s+% Total|^\s+Dload `,
  ].join('|'),
);
/** A failure in a line that otherwise looks like a success. */
const failedCount =
  /\b[1-9]\d* (?:tests? )?(?:failed|failures?|failing|errors?|problems?|offenses?)\b|\b(?:issues?|problems?|vulnerabilities) found\b/i;
const quiet =
  /\b(?:0|no|zero|without(?: any)?) (?:errors?|failures?|failed|failing|exceptions?|problems?|issues?)\b|\b(?:errors?|failures?|failed|fail|exceptions?)[:=]? *0(?![\w.])|\b(?:if|when|on|in case of) (?:an? )?(?:errors?|failures?)\b|(?<!npm )\berror[ -](?:free|handling|handler|pages?|paths?|queue|rate|boundary)\b|-W(?:no-)?error\S*/gi;

const informational =
  /^\W{0,2}(?:INFO|DEBUG|TRACE|VERBOSE|NOTICE|info|debug|trace|verbose|notice|debug\d)\b|\blevel["=:]+ *"?(?:info|debug|trace)\b|^\S{0,40} (?:INFO|DEBUG|TRACE|NOTICE)\b/;
const loud = /\b(?:BUILD )?(?:FAILURE|FAILED|ERROR|FATAL|PANIC)\b/;
const warned =
  /^\W{0,2}(?:WARN(?:ING)?|warn(?:ing)?|Warning|W)\b[\]:\s(![]|^[^:(\s]*(?::\d+){0,2}:? ?\(?warning\b|^\s+\d+:\d+\s+warning\b|(?:^|[\s:])(?:warning|Warning)(?:\[\w+\]| [A-Z]+\d+)?:|\blevel["=:]+ *"?warn|\bWARN(?:ING)?\b|^\w[\w-]* (?:warn|WARN)\b|^\S+ Warning at /;
const noted =
  /(?:^|[\s:])(?:note|info|hint|help|remark|style): |^\s*(?:hint|note|help|Hint|Note|Tip)\b[:=]|^\s*= (?:note|help)/;

const errnos =
  'ENOENT|EACCES|EPERM|EEXIST|ENOSPC|ENOMEM|EMFILE|ENFILE|EADDRINUSE|EADDRNOTAVAIL|ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|EPIPE|EISDIR|ENOTDIR|ENOTEMPTY|EBUSY|EROFS|ELIFECYCLE|ERESOLVE|EINTEGRITY|EINVAL|EIO|EJSONPARSE|ETARGET|EBADF|ENXIO';
/** A word that is not part of a path or an identifier. */
const word = (words: string): string =>
  String.raw`(?<![\w./@$#-]|["'\x60]\w*)(?:${words})(?![\w/@$(-]|\.\w)`;

const errors = [
  // Levels: `ERROR x`, `[error] x`, `E: x`, `level=error`, `##[error]`.
  /^\W{0,4}(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|PANIC|ERR|FAIL|FAILED|FAILURE|CRIT)\b(?!\.)/,
  /^\S{0,40} +(?:\[[^\]]*\] *)?(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|FAILED|CRIT)\b/,
  /^\W{0,2}(?:error|fatal|panic(?!\()|failed|failure|abort)\b ?[\]:!([]/i,
  /\blevel["=:]+ *"?(?:err|fatal|crit|panic|alert|emerg)/,
  /^##\[error\]|^::error\b|^Err:\d|^E: |^E\d{4} \d\d:|^\s*E {2,}\S|\bERR!|^\w[\w-]* error\b/,
  // Exception classes at the beginning of a line or followed by a message.
  /^\s*(?:[|│├└╰─>×x*-] ?)*(?:Uncaught |Unhandled |Caused by: |Exception in thread "[^"]*" )?[\w.$:\\/]*(?:Error|Exception|Failure|Panic|Fault|Interrupt|Exit)(?: \[\w+\])?(?::|$| \()/,
  /\b[\w.$]+(?:Error|Exception)(?: \[\w+\])?: \S/,
  /\b(?:Traceback \(most|Caused by:|Exception in thread|Unhandled|Uncaught|terminate called|panicked at|stack overflow|\w+Sanitizer: |data race|runtime error:)/,
  /(?:^|[\s:([*])(?:[a-z]+ )?[Ee]rrors?(?:\[\w+\]| [A-Z]+-?\d+)?: /,
  // Markers.
  /^\s*(?:\S+ )?(?:[✗✖✘❌✕⨯]|× |● \S|\[x\] |not ok\b)|\*\*\* \S|\*{3}(?:Failed|Not Run|Exception|Timeout)|^\*\* \([A-Za-z]|^!{3,}|<<< (?:FAIL|ERR)/,
  /^\s*--- FAIL|^FAIL(?:ED)?\b|\bFAIL(?:ED|URE|URES)?\b[!:)]?(?: |\(|$|!)|\.\.\. (?:ERROR|FAIL)|\(FAILED|\bERRORS?!|\bERROR(?: +\[ *\d+%\])?$/,
  /^\s*panic: |\bpanicked at\b|^fatal\b/,
  failedCount,
  // Ruby ends with the class, PHP and Gradle with the line.
  /\((?:\w+::)*\w*(?:Error|Exception)\)$|^[A-Z]\w*(?:Error|Exception)\b|\((?:Failed|Timeout|Not Run|SEGFAULT|Subprocess aborted)\)$/,
  /(?:^|\s)['"]?[\w./\\-]*\.\w{1,8}['"]?,? (?:on |at )?line:? \d+/,
  // A finding that begins with its code: `F401 [*] unused`.
  /^[A-Z]{1,5}\d{3,5}(?: \[\*\])? ["'\x60A-Z]/,
  /\bat \S+ line \d+\.?$|^would reformat\b|\bwould be reformatted\b|^Diff in /,
  /^[\w./+-]{2,30}: .*\b(?:missing|unterminated|illegal|bad|wrong|expected|unsupported|incorrect|incompatible|insufficient|exceeded|corrupt(?:ed)?|truncated|not in|too (?:many|few|long|large)|must|requires?)\b/i,
  /\bat line \d+(?:,? column \d+)?\.?$|^\s*expected\b.+\b(?:got|received|but was|found|actual)\b/i,
  /^\s*expected .+ (?:not )?to (?:be|equal|have|contain|match|throw|include|exist)\b/i,
  /\bline \d+,? column \d+ \(char \d+\)$/,
  /\b(?:is|are|was|were)(?: \w+)? lost\b/,
  // How a process ended.
  /\b(?:exit(?:ed)?|return(?:ed|s)?|terminated)\b(?: with)?(?: an?)?(?: non-?zero)?(?: exit)? ?(?:status|code)?:? ?(?:[1-9]\d*|non-?zero)\b(?! (?:file|item|row|result|line|byte|value|element|entr|record|match))/i,
  /\bSIG(?:SEGV|ABRT|KILL|BUS|ILL|FPE)\b|\b(?:Segmentation fault|segmentation violation|core dumped|Bus error|Illegal instruction|Floating point exception|Trace\/breakpoint trap)\b|(?:^|\s)(?:Killed|Aborted|Aborting|Terminated|Abort trap)\b/,
  /\b(?:out of memory|heap limit|cannot allocate memory|bad_alloc|oom-?kill\w*|no space left|disk quota exceeded|disk full|too many open files)\b/i,
  new RegExp(String.raw`\b(?:${errnos})\b`),
  // Words.
  new RegExp(
    word('errors?|fail(?:ed|ure|ures|ing|s)?|fatal|exceptions?|aborted|crashed|deadlock'),
    'i',
  ),
  new RegExp(
    word(
      "cannot|can't|can not|could not|couldn't|unable to|not found|no such|no module named|not something|(?:permission|access) denied|denied|refused|rejected|timed out|timeout of|did not|not allowed|not permitted|not installable|unmet dependenc(?:y|ies)|does not (?:exist|appear|match|provide)|doesn't exist|no matching|not a (?:git|directory|valid)|unbound variable|must be set|is not (?:defined|a function|exported|iterable|installed)|not recogni[sz]ed|no valid|multiple definitions?|duplicate (?:definition|symbol|key|declaration)|redefinition of|undeclared|undefined (?:reference|symbol|method|variable|local|identifier|name)|unknown (?:option|command|property|argument|field)|unrecognized|unresolved|unexpected|syntax error|invalid|mismatched|broken pipe|connection (?:reset|closed|lost)|lost connection|conflict|no rule|giving up|disabled by|would be overwritten",
    ),
    'i',
  ),
];

/** A quick check of the whole line: without any of these, no rule above can match. */
const trigger = new RegExp(
  [
    'err|fail|fatal|fault|panic|exception|traceback|interrupt|exit|kill|abort|denied|refus|reject|cannot|can.t |not |n.t |unable|no |undefined|undeclared|unresolved|unrecognized|unknown|unexpected|unhandled|uncaught|unmet|unbound|invalid|mismatch|conflict|broken|caused by|crash|deadlock|timed? ?out|giving up|lost|memory|space|quota|too many|heap|bad_alloc|oom|core|closed|reset|warn|SIG|sanitizer|overflow|terminat|return|status|must|would|emerg|alert|crit|severe|problem|offense|missing|illegal|unsupported|incorrect|expected|incompatible|insufficient|exceed|multiple|duplicate|redefin|valid|recogni|data race|corrupt|truncat|unterminated|require|wrong|bad |reformat|diff in|disabled|ENO|EAC|EPERM|EEXIST|EMFILE|ENFILE|EADDR|ETIMED|EHOST|ENET|EAI_|EPIPE|EISDIR|EBUSY|EROFS|ELIFE|EINV|EJSON|ETARGET|EBADF',
    String.raw`[✗✖✘❌✕⨯×●]|\*\*\*|!!!|<<<|\[x\]`,
    String.raw`\.[A-Za-z]\w{0,9}[:(]\[?\d|file:\d|^\s*\d+:\d+\s|^E[: ]|^Err|^[A-Z]{1,5}\d{3,5} `,
    String.raw`^[-=_*~#─⎯]{3,} |\^-|^\s*\d+\) \S|\bline:? \d`,
  ].join('|'),
  'i',
);

const frames = new RegExp(
  [
    String.raw`^\s*at .+(?::\d+|\(Native Method\)|<anonymous>\)?|\(Unknown Source\))`,
    String.raw`^\s*at (?:async |new |Object\.|Module\.|[\w$.<>]+ \()`,
    String.raw`^\s*File "[^"]+", line \d+`,
    String.raw`^\s*❯ .*:\d+:\d+`,
    String.raw`^\s*(?:from |# )\S+:\d+(?::in\b|$)`,
    String.raw`^\t\S+\.go:\d+(?: \+0x|$)`,
    String.raw`^\s*by 0x[\dA-Fa-f]+: `,
    String.raw`^\s+\((?:procedure|file|method) "[^"]+" line \d+\)`,
    String.raw`^\s*#\d+ +(?:0x|\S+\(|\S+ in |\{main\})`,
    String.raw`^\s*\d+: +(?:0x[\da-f]+|[\w<$]+::)`,
    String.raw`^\s*at \.?/`,
    String.raw`^\s+[\w$.<> ]+ \((?:file:\/\/|\/|node:)\S+:\d+:\d+\)$`,
    String.raw`^\S+\.py:\d+: in `,
    String.raw`^\s*╵ .*:\d+$`,
    String.raw`^\s*/\S+:\d+$`,
    String.raw`^\s*(?:-->|╭─\[|┌─|,-\[) ?\[? ?\S+:\d+`,
  ].join('|'),
);
const libraries =
  /node_modules|\bnode:|<anonymous>\)?$|<frozen |\/site-packages\/|\/dist-packages\/|\/lib\/python|\/_vendor\/|\/usr\/(?:lib|share|include)|\/rustc\/|\.cargo\/registry|\bjava\.base|\b(?:java|javax|jdk|sun|kotlin|scala)\.[a-z]|org\.(?:junit|gradle|apache|springframework|opentest4j|hamcrest)|\/gems\/|\/vendor\/|sysdeps|libc[_.]|libsanitizer|internal\/|\[(?:node|eval)\]|go\/src\/|\/go-[\d.]+\/|^\s*\d+: (?:0x|core::|std::|__rust|<|alloc::)/;

const details = new RegExp(
  [
    String.raw`^\s*(?:[-+?|│┊├#]\s*)?\$?(?:expected|received|actual|got|want|wanted|have|left|right|rejected|resolved|thrown|but was|found|the (?:missing|extra) elements|expected collection|actual collection|difference|diff|snapshot|value|reason|message|cause|symbol|location|error|details?|stderr|received promise)\b[^a-z]{0,3}.*[:=\d<"'\x60[{(]`,
    String.raw`^\s*[-+](?![-+>]{1,2}) *\S|^(?:---|\+\+\+) [A-Z]`,
    String.raw`^\s*┊ [-+]`,
    String.raw`^[^=!]*\S (?:!==|!=|≠) \S`,
    String.raw`^E {2,}`,
    String.raw`^>>> \S|^\s*(?:previous )?(?:read|write) of size \d|\bis located \d+ bytes\b|\bdiffering\b`,
    String.raw`^>\s{2,}\S`,
    String.raw`^\s*[├╰]|^\s*[!⚠] \S`,
  ].join('|'),
  'i',
);
const codes =
  /^\s*>? *\d+ ?[|│]|^\s*[|│·┆]\s|^\s*[|│·┆]$|^\s*[\^~]+[\s^~-]*|^\s*>\s*\d+ [|│]|^\s*[─╯╰╭┬┐┘┴]{2,}/;
const gutter = /^\s*[|│] {0,3}(?=[A-Za-z])/;
const numberedTitle = /^\s*\d+\) \S/;
const headings = new RegExp(
  [
    String.raw`^([_=⎯─*~-])\1{2,} .*\w.* \1+$`,
    String.raw`^In \S+ line \d+:`,
    String.raw`^---- \S.* ----$`,
    String.raw`^# [\w.-]+\.\w+\/`,
    String.raw`^\S*[/\\.]\S*: In (?:function|member|instantiation|constructor|substitution)`,
    String.raw`^In file included from `,
  ].join('|'),
);

/** `^-- SC2086 (info): …` below the source line: a finding with its code. */
const caretCode = /\^-*\^? [A-Z]{1,5}\d{3,5}\b/;
/** `[warn] src/a.js` */
const barePath = /^\W*warn\w*\W+\S+\.\w{1,8}$/i;

const toolRules: readonly ToolRule[] = [
  { tools: ['prettier'], kind: 'error', pattern: /^\[warn\] \S/ },
  { tools: ['shellcheck'], kind: 'error', pattern: /(?:\^-+\^?|\[)-? ?SC\d{4}\b/ },
  {
    tools: ['maven'],
    kind: 'fine',
    pattern:
      /^\[ERROR\] *(?:$|To see the full|Re-run Maven|For more info|\[Help|Please refer|-> \[Help|After correcting)/,
  },
  {
    tools: ['npm'],
    kind: 'fine',
    pattern:
      /^npm (?:error|ERR!) *(?:$|A complete log|For a full report|\S*\/_logs\/|404 *$|404 (?:Note|tarball)|To see a list|npm run$|If you are behind|Fix the upstream|notarget In most)/,
  },
  { tools: ['gradle'], kind: 'heading', pattern: /^\* (?:What went wrong|Where):/ },
  {
    tools: ['gradle'],
    kind: 'fine',
    pattern: /^\* (?:Try|Get more help)|^Run (?:with|gradle) |^> Run with --/,
  },
  { tools: ['jest'], kind: 'fine', pattern: /^\s*● Console/ },
  { tools: ['rspec'], kind: 'error', pattern: /^rspec \.\/\S+:\d+|Failure\/Error:/ },
];

interface ToolRegion {
  tools: readonly string[];
  from: RegExp;
  to: RegExp;
}

/** Parts of a report that list expected failures. */
const toolRegions: readonly ToolRegion[] = [
  { tools: ['rspec'], from: /^Pending: \(Failures/, to: /^(?:Failures:|Finished in )/ },
];

export const regionOf = (text: string, { without }: RuleOptions = {}): RegExp | undefined =>
  toolRegions.find(
    ({ tools, from }) => from.test(text) && !tools.some((tool) => without?.has(tool)),
  )?.to;

export interface RuleOptions {
  /** Disables the rules that carry these names. */
  without?: ReadonlySet<string>;
}

const anywhere = new RegExp(trigger.source, 'im');
/** The same check for many lines together. */
export const anyMayMatter = (text: string): boolean => anywhere.test(text);

/** True if the line needs a closer check. False for most lines of most logs. */
export const mayMatter = (text: string): boolean => trigger.test(text);

export function kindOf(text: string, timed: boolean, options: RuleOptions = {}): LineKind {
  const { without } = options;
  for (const rule of toolRules)
    if (rule.pattern.test(text) && !rule.tools.some((tool) => without?.has(tool))) return rule.kind;
  if (frames.test(text.replace(/^npm (?:error|ERR!) /, '')))
    return libraries.test(text) ? 'library' : 'frame';
  const said = text.replace(quiet, '');
  if (numberedTitle.test(text)) return 'heading';
  if (fine.test(text) && !failedCount.test(said)) return 'fine';
  if (informational.test(text)) return loud.test(said) ? 'error' : 'fine';
  if (headings.test(text) && !failedCount.test(said)) return 'heading';
  if (/^\s*(?:duration_ms:|\.\.\.$|---$)/.test(text)) return 'note';
  if (caretCode.test(text)) return 'error';
  if (warned.test(text))
    return barePath.test(text) || isError(said.replace(/\bwarnings?\b/gi, '')) || located.test(text)
      ? 'warning'
      : 'fine';
  if (noted.test(text)) return 'note';
  if (locatedColumn.test(text) || (!timed && locatedLine.test(text))) return 'error';
  if (/^\s+\d+:\d+\s+\S/.test(text)) return 'error';
  if (codes.test(text)) return gutter.test(text) ? behindGutter(text, timed, options) : 'code';
  if (isError(said)) return 'error';
  return details.test(text) ? 'detail' : 'plain';
}

/** Some reports draw a vertical line next to everything they print. Lines there that report nothing are source code. */
function behindGutter(text: string, timed: boolean, options: RuleOptions): LineKind {
  const kind = kindOf(text.replace(gutter, ''), timed, options);
  return kind === 'error' || kind === 'frame' || kind === 'library' ? kind : 'code';
}

const isError = (text: string): boolean => errors.some((pattern) => pattern.test(text));
