import type { Listening } from '#config';
import type { MigrationReport } from './check-migration.ts';
import type { PlannedReactionRule, UnderivableReaction } from './reaction-plan.ts';

/**
 * The plans of a report as one file for `master.d`: what minions may emit, with a comment for each
 * listener, and what the files of the reactor may call.
 */
export function policyText({
  signals: { rules, needless, narrowed, ungranted },
  reactions,
}: Pick<MigrationReport, 'reactions' | 'signals'>): string {
  const lines = [
    '# What minions may emit so that the listeners of this site go on hearing them. Tags that Salt',
    '# itself emits need no rule. Add "minions: <glob>" to a rule that is not for all minions.',
    ...needless.map((it) => comment(`needs no rule: ${describe(it)}`)),
    ...narrowed.map((it) => comment(`narrowed: ${describe(it)}: ${it.reason}`)),
    ...ungranted.map((it) => comment(`not granted: ${describe(it)}: ${it.reason}`)),
    ...reactions.underivable.map((it) => comment(`not derivable: ${describeReaction(it)}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    signals: []' : '    signals:',
    ...rules.flatMap(({ tag, listeners }) => [
      ...listeners.map((it) => `      ${comment(describe(it))}`),
      // JSON's text is YAML's, whatever the tag holds.
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

/** Whatever it holds stays on its line. */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')}`;
}

function describe({ pattern, listener, file, line }: Listening): string {
  return `${JSON.stringify(pattern)} for ${listener} (${file}:${line})`;
}

/** Which file, and why no rule follows from it. */
function describeReaction({ reference, file, reason }: UnderivableReaction): string {
  const place = file === '' || file === reference ? reference : `${reference} (${file})`;
  return `${place}: ${reason}`;
}
