/** Turns events into runs of reactions and queues them. */

import type { TriggerEvent } from '#master';
import type { CompiledReaction } from './compile-reactions.ts';
import { type PlannedCall, valueAt } from './reaction-planner.ts';
import type { OpenRun, QueueConditions, ReactionQueue } from './reaction-queue.ts';
import type { ReactionReports } from './reaction-reports.ts';

/**
 * Maximum number of runs in a chain in which each run triggers the next one. A longer chain is
 * treated as a loop.
 */
const maxDepth = 3;

interface AskedCall {
  readonly call: PlannedCall;
  readonly depth: number;
  readonly conditions: QueueConditions;
}

interface ReactionIntakeOptions {
  readonly reactions: () => readonly CompiledReaction[];
  readonly queue: ReactionQueue;
  readonly reports: ReactionReports;
  /** Returns a new jid. */
  readonly freshJid: () => Promise<string>;
  readonly now: () => number;
  /** Called for each queued run. */
  readonly onQueued: (run: OpenRun) => void;
}

/** Finds the reactions that match an event, and queues their runs. */
export class ReactionIntake {
  readonly #options: ReactionIntakeOptions;

  constructor(options: ReactionIntakeOptions) {
    this.#options = options;
  }

  /** Whether any reaction matches events with this tag. */
  isWanted(tag: string): boolean {
    return this.#options.reactions().some((it) => it.matches(tag));
  }

  /**
   * Queues the runs that an event triggers. They are durable when the promise resolves. If a minion
   * repeats a request, its runs are not queued again.
   * @throws StoreError if they cannot be stored
   */
  async take(occurrence: TriggerEvent): Promise<undefined> {
    const wanting = this.#options
      .reactions()
      .filter((it) => it.matches(occurrence.tag) && it.isFrom(occurrence.sender));
    for (const compiled of wanting) await this.#takeFor(compiled, occurrence);
  }

  async #takeFor(compiled: CompiledReaction, occurrence: TriggerEvent): Promise<void> {
    const { reports } = this.#options;
    const { name } = compiled.reaction;
    const { tag } = occurrence;
    if (!compiled.isGuaranteedBy(occurrence.rule))
      return reports.dropped(name, 'no-schema', { tag });
    const depth = await this.#depthOf(occurrence.jid);
    if (depth > maxDepth) return reports.dropped(name, 'depth', { tag });
    const plan = await compiled.plan(occurrence);
    for (const { reason, ...more } of plan.refused) reports.dropped(name, reason, { tag, ...more });
    for (const [place, call] of plan.calls.entries()) {
      await this.#takeCall(compiled, occurrence, {
        call,
        depth,
        conditions: conditionsOf(compiled, occurrence, place),
      });
    }
  }

  async #takeCall(
    compiled: CompiledReaction,
    { tag, sender, owner = sender }: TriggerEvent,
    asked: AskedCall,
  ): Promise<void> {
    const { queue, reports, now } = this.#options;
    const { name } = compiled.reaction;
    const { mark, window } = asked.conditions;
    if (await queue.isKnown(mark)) return reports.count('repeated');
    if (await queue.isWithin(name, window)) reports.count('once');
    else if (!compiled.meter.tryTake(owner ?? '', now())) reports.dropped(name, 'rate', { tag });
    else if (await this.#queue(compiled, { tag, sender, owner }, asked)) return;
    await queue.remember(mark);
  }

  /**
   * Queues a run.
   * @returns `false` if the run was dropped, because the queue is full or a recent run of the
   * reaction excludes it (`once`)
   */
  async #queue(
    { reaction, places }: CompiledReaction,
    { tag, sender, owner }: Pick<TriggerEvent, 'tag' | 'sender' | 'owner'>,
    { call, depth, conditions }: AskedCall,
  ): Promise<boolean> {
    const { queue, reports, now, onQueued } = this.#options;
    const jid = await this.#options.freshJid();
    const { all, own } = queue.count(reaction.name, owner);
    if (!places.has(all, own)) {
      reports.dropped(reaction.name, 'queue', { tag });
      return false;
    }
    const from = {
      ...(sender === undefined ? {} : { sender }),
      ...(owner === undefined || owner === sender ? {} : { owner }),
    };
    const run = {
      jid,
      reaction: reaction.name,
      tag,
      ...from,
      depth,
      queuedAt: now(),
      call,
      isSent: false,
    };
    const outcome = await queue.add(run, conditions);
    reports.count(outcome);
    if (outcome === 'queued') onQueued(run);
    return outcome !== 'once';
  }

  /**
   * Returns the number of reaction runs in the chain that led to an event. Returns 0 if no reaction
   * caused the event.
   */
  async #depthOf(jid: string | undefined): Promise<number> {
    const cause = jid === undefined ? undefined : await this.#options.queue.find(jid);
    return cause === undefined ? 0 : cause.depth + 1;
  }
}

function conditionsOf(
  { reaction }: CompiledReaction,
  occurrence: TriggerEvent,
  place: number,
): QueueConditions {
  const { name, throttleSeconds, throttleKey } = reaction;
  const { sender, request } = occurrence;
  const mark =
    sender === undefined || request === undefined
      ? undefined
      : {
          minion: sender,
          request: request.mark,
          place: JSON.stringify([name, request.place, place]),
        };
  const values = [place, ...throttleKey.map((from) => valueAt(from, occurrence))];
  const window = throttleSeconds === 0 ? undefined : { values, lengthMs: throttleSeconds * 1000 };
  return { mark, window };
}
