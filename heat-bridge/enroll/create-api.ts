import { type LinkedSignal, linkSignals } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import type { EnrollApi, Machine, RetireListener } from './api.ts';
import type { EnrolmentDesk } from './desk.ts';
import { type Enrolment, isLive } from './enrolment.ts';
import type { EnrolmentBook } from './enrolment-book.ts';
import { type ImportParts, importMinions } from './import.ts';
import type { KeyPairs } from './key-pairs.ts';
import type { EnrolmentMoves } from './moves.ts';

/** What {@link createEnrollApi} needs. */
export interface EnrollApiParts extends ImportParts {
  readonly desk: EnrolmentDesk;
  readonly book: EnrolmentBook;
  readonly moves: EnrolmentMoves;
  readonly keyPairs: KeyPairs;
  readonly listeners: Set<RetireListener>;
  /** Ends those who follow. */
  readonly closing: AbortSignal;
}

export function createEnrollApi(parts: EnrollApiParts): EnrollApi {
  const { desk, book, moves, listeners } = parts;
  const find = (number: string): Enrolment => {
    const enrolment = book.get(number);
    if (enrolment !== undefined) return enrolment;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'there is no enrolment of this number');
  };
  const ofMachine = (machine: Exclude<Machine, { readonly id: string }>): readonly Enrolment[] => {
    if ('number' in machine) return [find(machine.number)];
    const own = [...book.live()].filter(({ instance }) => instance === machine.instance);
    if (own.length > 0) return own;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'no enrolment names this instance');
  };
  const follow = (number: string, signal?: AbortSignal): AsyncIterable<Enrolment> =>
    untilSettled(find(number), book, linkSignals(parts.closing, signal));
  return {
    create: (request) => desk.create(request),
    import: (minions) => importMinions(minions, parts),
    prepared: () => parts.keyPairs.prepare(),
    list: async () => [...book.all()],
    show: async (number) => find(number),
    follow,
    signedIn: async (number, signal) => {
      let last = find(number);
      for await (const enrolment of follow(number, signal)) last = enrolment;
      if (last.state === 'signed-in') return last;
      const { reason = `the enrolment is ${last.state}` } = last;
      throw new BridgeError('ERR_ENROLL_FAILED', reason);
    },
    retire: async (machine) => {
      if ('id' in machine) {
        await parts.admission.exclusive(machine.id, () => moves.retire(machine.id));
        return;
      }
      for (const enrolment of ofMachine(machine)) {
        await moves.exclusive(enrolment, async (current) => {
          if (current !== undefined && isLive(current)) await moves.retire(current.id);
        });
      }
    },
    onRetire: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

async function* untilSettled(
  first: Enrolment,
  book: EnrolmentBook,
  end: LinkedSignal,
): AsyncGenerator<Enrolment, void, void> {
  try {
    for await (const enrolment of book.follow(first.number, end.signal)) {
      yield enrolment;
      if (enrolment.state !== 'open' && enrolment.state !== 'accepted') return;
    }
  } finally {
    end.unlink();
  }
}
