/** Limits for the work that templates and user-data of callers cause. */

import test from 'ava';
import { ContentBudget } from '#heat-bridge/commands/states/content-budget.ts';
import { renderMustache } from '#heat-bridge/commands/states/mustache.ts';
import { requireMergeable } from '#heat-bridge/enroll/existing-user-data.ts';

function render(template: string): { readonly text: string; readonly steps: number } {
  const budget = new ContentBudget();
  const text = renderMustache(template, { a: 'b' }, { escapesHtml: false, place: 'f', budget });
  return { text, steps: budget.work.steps };
}

test('a Mustache template is read once, also if it is nothing but braces', (t) => {
  for (const template of [
    '{{'.repeat(131_072),
    `${'{{'.repeat(100_000)}}`,
    '{{a}'.repeat(60_000),
  ]) {
    const { text, steps } = render(template);
    t.is(text, template);
    t.true(steps <= 2 * template.length, `${steps} steps for ${template.length} characters`);
  }
  t.is(render('{{a}} {{{a}}} {{! } }} {{&a}}').text, 'b b {{! } }} b');
});

test('user-data that is large or deep is searched for the name, and not parsed', (t) => {
  const refused = { code: 'ERR_ENROLL_ARGS', message: /section `salt_minion`/ };
  const own = 'salt_minion:\n  conf: {}\n';
  t.throws(() => requireMergeable(`#cloud-config\n${own}`, 'cloud-init'), refused);
  t.throws(() => requireMergeable(`#cloud-config\n"salt\\x5fminion": 1`, 'cloud-init'), refused);
  for (const filling of ['{{'.repeat(100_000), `x: [${'a,'.repeat(60_000)}]\n`]) {
    t.notThrows(() => requireMergeable(`#cloud-config\n${filling}`, 'cloud-init'));
    t.throws(() => requireMergeable(`#cloud-config\n${own}${filling}`, 'cloud-init'), refused);
  }
  t.notThrows(() => requireMergeable('#cloud-config\nx: {salt_minion: 1}\n', 'cloud-init'));
});
