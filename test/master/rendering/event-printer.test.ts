/** Work of finding out which printed texts come from an event. */

import test from 'ava';
import type { WorkMeter } from '#runtime';
import { EventPrinter } from '#salt/render/event-text.ts';

const texts = Array.from({ length: 500 }, (_, n) => `text ${n}: of the event`);
const file = `# ${texts.join(', ')}, and own texts: a b, c d\n`;

function printerFor(event: readonly string[]) {
  let searches = 0;
  let steps = 0;
  const files = (): string[] => {
    searches += 1;
    return [file];
  };
  const printer = new EventPrinter('secret', { event: [...event], files, marksWords: true });
  const meter: WorkMeter = {
    spend: (_part, more) => {
      steps += more;
    },
    hold: () => {},
    refuse: (part) => {
      throw new Error(part);
    },
  };
  return {
    print: (value: string | string[]) => printer.print(value, meter),
    work: () => ({ searches, steps }),
  };
}

test('the texts of an event are not searched for in files', (t) => {
  const { print, work } = printerFor(texts);
  t.false(print(texts).includes('of the event'));
  t.deepEqual(work(), { searches: 0, steps: 0 });
});

test('each search for a text is counted, and made once', (t) => {
  const { print, work } = printerFor(['a b and c d', 'b c']);
  t.is(print('own texts'), 'own texts');
  t.not(print('a b'), 'a b', 'a part of a text of the event');
  const once = work();
  t.is(once.searches, 2);
  t.true(once.steps >= (2 * file.length) / 16);
  print(['own texts', 'a b', 'own texts']);
  t.deepEqual(work(), once);
});
