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

test('a message of very many parts is refused, and the text of a part is not parsed', (t) => {
  const headers = 'Content-Type: multipart/mixed; boundary="a"\n\n';
  const part = '--a\nContent-Type: text/plain\n\nx\n';
  const tooMany = { code: 'ERR_ENROLL_ARGS', message: /too many parts/ };
  t.notThrows(() => requireMergeable(`${headers}${part.repeat(200)}`, 'cloud-init'));
  t.throws(() => requireMergeable(`${headers}${part.repeat(5_000)}`, 'cloud-init'), tooMany);
  t.throws(() => requireMergeable(`${headers}${'--a'.repeat(80_000)}`, 'cloud-init'), tooMany);
  // No parser of YAML accepts the last line.
  const config = `#cloud-config\n# salt_minion\n${'- a\n'.repeat(4_050)}b: [\n`;
  t.notThrows(() => requireMergeable(config, 'cloud-init'));
});
