import test from 'ava';
import type { Enrolment } from '#heat-bridge/enroll/enrolment.ts';
import { EnrolmentDeadlines } from '#heat-bridge/enroll/enrolment-deadlines.ts';

function expired(id: string): Enrolment {
  return {
    ...{ number: `number of ${id}`, id, project: 'p', by: 'claim', state: 'open', protocol: 3 },
    ...{ createdAt: 0, deadline: 1000 },
  } as const;
}

test('an enrolment that cannot be ended does not keep the others from ending, and is logged', async (t) => {
  const enrolments = ['web1', 'web2', 'web3'].map(expired);
  const ended: string[] = [];
  const logged: unknown[] = [];
  const deadlines = new EnrolmentDeadlines({
    repository: { all: () => enrolments.values(), prune: () => {} },
    transitions: {
      exclusive: async ({ number }, work) => work(enrolments.find((it) => it.number === number)),
      fail: async ({ id }) => {
        if (id === 'web1') throw new Error('the key cannot be retired');
        ended.push(id);
      },
      retire: async () => {},
    },
    bursts: { flushIfDue: () => {} },
    isActive: () => true,
    log: { error: (...line: unknown[]) => void logged.push(line) },
    now: () => 2000,
  });
  await deadlines.endExpired();
  t.deepEqual(ended, ['web2', 'web3']);
  t.like(logged, [[{ enrolment: 'web1', failed: 1 }]]);
});
