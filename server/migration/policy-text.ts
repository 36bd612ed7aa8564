import type { Listening } from '#config';
import type { MigrationReport } from './check-migration.ts';
import type { PlannedReactionRule, UnderivableReaction } from './reaction-plan.ts';

/**
 * Returns the rules of a report as a file for `master.d`. They permit the event tags that minions
 * must emit, with a comment for each listener, and the calls of reactor files.
 */
export function policyText({
  signals: { rules, needless, narrowed, ungranted },
  reactions,
}: Pick<MigrationReport, 'reactions' | 'signals'>): string {
  const lines = [
    '# Tags that minions must emit for the listeners of this site. Tags that Salt itself',
    '# emits need no rule. To limit a rule to some minions, add "minions: <glob>".',
    ...needless.map((it) => comment(`needs no rule: ${describe(it)}`)),
    ...narrowed.map((it) => comment(`narrowed: ${describe(it)}: ${it.reason}`)),
    ...ungranted.map((it) => comment(`not granted: ${describe(it)}: ${it.reason}`)),
    ...reactions.underivable.map((it) => comment(`not derivable: ${describeReaction(it)}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    signals: []' : '    signals:',
    ...rules.flatMap(({ tag, listeners }) => [
      ...listeners.map((it) => `      ${comment(describe(it))}`),
      // Tags are written as JSON strings, which are valid YAML for any content.
      `      - tag: ${JSON.stringify(tag)}`,
    ]),
    ...(reactions.rules.length === 0 ? [] : ['    rules:']),
    ...reactions.rules.flatMap(ruleLines),
  ];
  return `${lines.join('\n')}\n`;
}

function ruleLines(
  { reference, action, functions, within }: PlannedReactionRule,
  index: number,
): readonly string[] {
  return [
    `      ${JSON.stringify(`reactor ${index + 1}`)}:`,
    `        subject: { service: ${JSON.stringify(`reaction:${reference}`)} }`,
    `        action: ${action}`,
    '        resource:',
    `          fun: ${JSON.stringify(functions)}`,
    ...(within === undefined ? [] : [`          within: ${JSON.stringify(within)}`]),
  ];
}

/** Formats a text as a YAML comment of one line. */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')}`;
}

function describe({ pattern, listener, file, line }: Listening): string {
  return `${JSON.stringify(pattern)} for ${listener} (${file}:${line})`;
}

/** Describes a reactor file that cannot be converted to rules, and the reason. */
function describeReaction({ reference, file, reason }: UnderivableReaction): string {
  const place = file === '' || file === reference ? reference : `${reference} (${file})`;
  return `${place}: ${reason}`;
}
