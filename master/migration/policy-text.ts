import type { Listening } from './listeners.ts';
import type { SignalPlan } from './signal-plan.ts';

/** The plan as a file for `master.d`: YAML with a comment for each listener. */
export function policyText({ rules, needless, narrowed, ungranted }: SignalPlan): string {
  const lines = [
    '# What minions may emit so that the listeners of this site go on hearing them. Tags that Salt',
    '# itself emits need no rule. Add "minions: <glob>" to a rule that is not for all minions.',
    ...needless.map((it) => comment(`needs no rule: ${describe(it)}`)),
    ...narrowed.map((it) => comment(`narrowed: ${describe(it)}: ${it.reason}`)),
    ...ungranted.map((it) => comment(`not granted: ${describe(it)}: ${it.reason}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    signals: []' : '    signals:',
    ...rules.flatMap(({ tag, listeners }) => [
      ...listeners.map((it) => `      ${comment(describe(it))}`),
      // JSON's text is YAML's, whatever the tag holds.
      `      - tag: ${JSON.stringify(tag)}`,
    ]),
  ];
  return `${lines.join('\n')}\n`;
}

function describe({ pattern, listener, file, line }: Listening): string {
  return `${JSON.stringify(pattern)} for ${listener} (${file}:${line})`;
}

/** Whatever it holds stays on its line. */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')}`;
}
