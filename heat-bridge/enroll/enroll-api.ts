/** The interface `enroll`, over the enrolment service. */

import { linkSignals } from '#runtime';
import { BridgeError } from '../errors.ts';
import { isLive } from '../live-enrolment.ts';
import type { Enrolment, EnrolRequest, NewEnrolment } from './enrolment.ts';
import type { EnrolmentRepository } from './enrolment-repository.ts';
import type { EnrolmentService } from './enrolment-service.ts';
import type { EnrolmentTransitions } from './enrolment-transitions.ts';
import { type ImportDeps, importMinions, type KnownMinion } from './import-minions.ts';
import type { KeyPairs } from './key-pairs.ts';

export interface EnrollApiDeps extends ImportDeps {
  readonly desk: EnrolmentService;
  readonly book: EnrolmentRepository;
  readonly moves: EnrolmentTransitions;
  readonly keyPairs: KeyPairs;
  readonly listeners: Set<RetireListener>;
  /** Ends those who follow. */
  readonly closing: AbortSignal;
}

export function createEnrollApi(parts: EnrollApiDeps): EnrollApi {
  const { desk, book, moves, listeners } = parts;
  const find = (number: string): Enrolment => {
    const enrolment = book.get(number);
    if (enrolment !== undefined) return enrolment;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'there is no enrolment of this number');
  };
  const ofMachine = (machine: Exclude<Machine, { readonly id: string }>): readonly Enrolment[] => {
    if ('number' in machine) return [find(machine.number)];
    const own = [...book.liveOfInstance(machine.instance)];
    if (own.length > 0) return own;
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'no enrolment names this instance');
  };
  const follow = (number: string, signal?: AbortSignal): AsyncIterable<Enrolment> =>
    followUntilDone(find(number), book, linkSignals(parts.closing, signal));
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
        await moves.retireInTurn(machine.id);
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

async function* followUntilDone(
  first: Enrolment,
  book: EnrolmentRepository,
  end: ReturnType<typeof linkSignals>,
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

/** A machine by its minion's id, by what the cloud calls it, or by the number of its enrolment. */
type Machine =
  | { readonly id: string }
  | { readonly instance: string }
  | { readonly number: string };

/** Ends what hangs on an id elsewhere. */
export type RetireListener = (id: string) => Promise<void> | void;

/** Machines on their way to being minions, and on their way out. */
export interface EnrollApi {
  /**
   * Begins an enrolment: makes a ticket and user-data; with `by: 'keys'` also a key pair, whose
   * public half is accepted and whose private half is in the user-data and nowhere else. A ticket
   * that the same project was given for the id, and that nobody used, is no longer good.
   * @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, ERR_ENROLL_FULL
   */
  create(request: EnrolRequest): Promise<NewEnrolment>;
  /**
   * Accepts the keys of minions that are known; all of them or none.
   * @throws BridgeError ERR_ENROLL_ARGS, ERR_ENROLL_TAKEN, with the place in the list
   */
  import(minions: readonly KnownMinion[]): Promise<readonly Enrolment[]>;
  /** Resolves when as many key pairs lie ready as `prepared_keys` says. */
  prepared(): Promise<void>;
  /** Those that are under way or have a key, and what was over within a week. */
  list(): Promise<readonly Enrolment[]>;
  /** @throws BridgeError ERR_ENROLL_UNKNOWN */
  show(number: string): Promise<Enrolment>;
  /**
   * The enrolment as it is, and each time that it changes, until its minion has signed in or it has
   * failed.
   * @throws BridgeError ERR_ENROLL_UNKNOWN, from the iteration
   */
  follow(number: string, signal?: AbortSignal): AsyncIterable<Enrolment>;
  /**
   * Resolves when the minion has signed in: it was heard with a proof of its key.
   * @throws BridgeError ERR_ENROLL_FAILED with the reason, ERR_ENROLL_UNKNOWN
   */
  signedIn(number: string, signal?: AbortSignal): Promise<Enrolment>;
  /**
   * Ends all that a machine has at this master, also one that was enrolled otherwise: its key,
   * session and connections, grains, pillar, mine and pushed files, the jobs that were published to
   * it, its ticket. A later owner of the id has none of it. Nothing is there any more when it resolves.
   * By the number of an enrolment that is over, nothing is done: another machine may have the id.
   * @throws BridgeError ERR_ENROLL_UNKNOWN for an instance that no enrolment names, and for a number
   * that none has
   */
  retire(machine: Machine): Promise<void>;
  /**
   * Calls the listener with the id of each that is to be retired, until the function given is
   * called. What it does is waited for, so it must not wait for another call about the same id;
   * where it fails, nothing is retired.
   */
  onRetire(listener: RetireListener): () => void;
}
