import type { PolicyRule } from '#acl';
import type { LearnedPolicy } from '#master';

/**
 * Formats the rules that were derived from recorded requests as a YAML file for `master.d`, with a
 * comment for each rule.
 */
export function learnedText({ rules, ungrantable, denied }: LearnedPolicy): string {
  const lines = [
    '# The smallest policy that permits the recorded requests of minions. Review every rule: a request',
    '# that was made is not always legitimate. Requests of an attacker would be included as well.',
    ...denied.map((it) => comment(`denied by the rule ${it.rule}: ${describe(it)}`)),
    ...ungrantable.map((it) => comment(`no rule can permit this request: ${describe(it)}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    rules: {}' : '    rules:',
    ...rules.flatMap(ruleLines),
  ];
  return `${lines.join('\n')}\n`;
}

function ruleLines({
  rule,
  count,
  firstAt,
  lastAt,
  notes,
}: LearnedPolicy['rules'][number]): string[] {
  return [
    ...[seen(count, firstAt, lastAt), ...notes].map((text) => `      ${comment(text)}`),
    `      ${yaml(rule.name)}:`,
    ...fieldsOf(rule).map(([name, value]) => `        ${name}: ${yaml(value)}`),
  ];
}

function fieldsOf({ subject, action, resource }: PolicyRule): (readonly [string, unknown])[] {
  return [
    ['subject', subject],
    ['action', action],
    ['resource', resource],
  ];
}

function describe(record: LearnedPolicy['denied'][number]): string {
  const { minion, action, texts, count, firstAt, lastAt } = record;
  return `${minion} ${action} ${JSON.stringify(texts.join())}, ${seen(count, firstAt, lastAt)}`;
}

function seen(count: number, firstAt: number, lastAt: number): string {
  return `${count} times, ${new Date(firstAt).toISOString()} to ${new Date(lastAt).toISOString()}`;
}

/**
 * Formats a value as JSON with a space after each colon and with escapes for non-printable
 * characters. Such JSON is valid YAML.
 */
function yaml(value: unknown): string {
  return JSON.stringify(value, null, 1)
    .replace(/\n\s*/g, ' ')
    .replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Formats a comment. Line breaks in the text are replaced, so that the comment stays on one line.
 */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\ufeff\ufffe\uffff]/gu, '?')}`;
}
