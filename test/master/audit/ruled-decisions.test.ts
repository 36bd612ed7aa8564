/** However many a minion is refused, the log grows by so much. */
import test from 'ava';
import type { AuditEntry } from '../../../master/audit/audit-log.ts';
import { RuledDecisions } from '../../../master/audit/audited.ts';

const denied = { effect: 'deny', rule: 'default-deny', reason: '' } as const;
const allowed = { effect: 'allow', rule: 'deploys', reason: '' } as const;

function start(): {
  readonly entries: AuditEntry[];
  readonly clock: { now: number };
  readonly ruled: RuledDecisions;
} {
  const entries: AuditEntry[] = [];
  const clock = { now: 0 };
  const audit = { append: (entry: AuditEntry) => void entries.push(entry), digest: async () => '' };
  return { entries, clock, ruled: new RuledDecisions({ audit, now: () => clock.now }) };
}

function signal(minion: string, what: string): Parameters<RuledDecisions['note']>[0] {
  return { who: { kind: 'minion', name: minion }, action: 'signal', what };
}

test('the first of a kind is told at once, its repetitions once a minute', (t) => {
  const { entries, clock, ruled } = start();
  for (let index = 0; index < 500; index += 1) ruled.note(signal('web1', 'my/tag'), denied);
  ruled.note(signal('web1', 'my/tag'), allowed);
  t.is(entries.length, 2);
  clock.now = 60_000;
  ruled.note(signal('web1', 'my/tag'), denied);
  t.like(entries[2], { what: 'my/tag', outcome: 'denied', count: 499 });
  t.is(entries.length, 4);
});

test('a flood of tags costs some records a minute, and its size is told', (t) => {
  const { entries, clock, ruled } = start();
  for (let second = 0; second < 60; second += 1) {
    clock.now = second * 1000;
    for (let index = 0; index < 1000; index += 1) {
      ruled.note(signal('bad', `${second}/${index}`), denied);
    }
  }
  t.true(entries.length < 30);
  ruled.note(signal('web1', 'my/tag'), denied);
  t.is(entries.at(-1)?.who.name, 'web1');
  ruled.flush();
  const { count = 0 } = entries.at(-1) ?? {};
  t.is(count + entries.length - 2, 60_000);
});

test('a flood of minions is bounded as well', (t) => {
  const { entries, ruled } = start();
  for (let index = 0; index < 10_000; index += 1) ruled.note(signal(`m${index}`, 'x'), denied);
  ruled.flush();
  t.is(entries.length, 201);
});
