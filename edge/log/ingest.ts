/**
 * Applies the logs of sites at the centre. Applies each entry once, and the entries of a site and
 * class in the order in which the site appended them.
 */

import type { SitesOptions } from '#config';
import type { ExtensionHost, StateOperation } from '#master';
import {
  type FairSlot,
  FairSlots,
  KeyedMutex,
  RepeatedWarnings,
  sleepUntilAborted,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { retryConflicts } from '#store';
import { EdgeError } from '../errors.ts';
import type { SiteRegistry } from '../identity/site-registry.ts';
import { type LogPosition, positionRow, siteRow, sitesPrefix } from '../identity/site-rows.ts';
import { edgeLimits } from '../limits.ts';
import type { CentreConnections } from '../link/centre-connections.ts';
import { EntryRates } from './entry-rates.ts';
import {
  bulkClasses,
  entryKinds,
  type LogClass,
  type LogEntry,
  type LogEntryHandler,
  type LogIngest,
  logClasses,
} from './log.ts';
import {
  decodeAndCount,
  decodeBatch,
  isMarker,
  lastOf,
  type SentEntry,
  type SentItem,
  stepsOfByte,
} from './log-codec.ts';
import {
  type Acknowledgement,
  batchMessages,
  maxRefused,
  turnEndMessage,
  turnMessage,
} from './log-messages.ts';

/**
 * Duration for which a site may send returns and facts before other sites get their turn, in
 * milliseconds.
 */
const turnMs = 30_000;

/** Maximum number of list elements and map entries of the entries that are applied together. */
const maxElements = edgeLimits.batchElements.perOwner ?? 0;

/** Maximum number of attempts to apply a batch whose write conflicts with another write. */
const maxAttempts = 16;

/**
 * Time for which the centre still accepts the last batch of a site after the site's turn has ended,
 * in milliseconds.
 */
const lateMs = 30_000;

export interface IngestOptions {
  readonly host: Pick<ExtensionHost, 'closing' | 'logger' | 'now' | 'shared'>;
  readonly options: Pick<SitesOptions, 'parallelSites'>;
  readonly links: CentreConnections;
  readonly sites: Pick<SiteRegistry, 'isJoined'>;
  /** Rates of the entries of sites. Default: rates by the system clock. */
  readonly rates?: EntryRates;
  /** Waits for a number of milliseconds, or until a signal is aborted. Default: a timer. */
  readonly sleep?: typeof sleepUntilAborted;
}

/** Numbers of received entries since the start, by result. */
export interface IngestFigures {
  readonly applied: number;
  readonly duplicates: number;
  readonly refused: number;
  readonly dropped: number;
}

interface Turn {
  readonly slot: FairSlot;
  /**
   * Rejects the site's request for a turn to send entries. Has no effect once the turn has begun.
   */
  readonly refuse: () => void;
  timer: NodeJS.Timeout | undefined;
}

export class Ingest implements LogIngest {
  readonly #host: IngestOptions['host'];
  readonly #sites: IngestOptions['sites'];
  readonly #rates: EntryRates;
  readonly #sleep: typeof sleepUntilAborted;
  readonly #handlers = new Map<string, LogEntryHandler>();
  readonly #bySite = new KeyedMutex();
  readonly #slots: FairSlots;
  readonly #warnings: RepeatedWarnings;
  readonly #turns = new Map<string, Turn>();
  /** Batches that wait because their site exceeds its rates, by site and class. */
  readonly #waiting = new Map<string, AbortController>();
  /**
   * Last entry of each site and class for which this process has called
   * {@link LogEntryHandler.applied}: the id of the log and the sequence number of the entry.
   */
  readonly #appliedTo = new Map<string, { readonly log: string; readonly sequence: number }>();
  readonly #figures = { applied: 0, duplicates: 0, refused: 0, dropped: 0 };

  constructor({ host, options, links, sites, rates, sleep }: IngestOptions) {
    this.#host = host;
    this.#sites = sites;
    this.#rates = rates ?? new EntryRates();
    this.#sleep = sleep ?? sleepUntilAborted;
    this.#warnings = new RepeatedWarnings(host.logger, host.now);
    const { sendingSites } = edgeLimits;
    this.#slots = new FairSlots(sendingSites, { ...sendingSites, total: options.parallelSites });
    for (const each of logClasses) {
      links.handle(batchMessages[each], ({ log, entries }, { site }) =>
        this.#bySite.run(placeOf(site, each), () => this.#receive(site, each, log, entries)),
      );
    }
    links.handle(turnMessage, (_params, { site }) => this.#awaitTurn(site));
    links.handle(turnEndMessage, async (_params, { site }) => {
      this.#endTurn(site);
      return {};
    });
    links.onEnded((site) => this.#endTurn(site));
  }

  get figures(): IngestFigures {
    return this.#figures;
  }

  /**
   * Number of sites whose turn it is to send returns and facts (`active`), and of sites that wait
   * for a turn (`waiting`).
   */
  get turns(): { readonly active: number; readonly waiting: number } {
    return { active: this.#slots.held, waiting: this.#slots.waiting };
  }

  on(kind: string, handler: LogEntryHandler): void {
    if (!entryKinds.has(kind)) throw new TypeError(`log entries of the kind ${kind} have no class`);
    if (this.#handlers.has(kind))
      throw new TypeError(`log entries of the kind ${kind} already have a handler`);
    this.#handlers.set(kind, handler);
  }

  /**
   * Waits until all received batches of a site are applied or refused. Batches that wait because of
   * the rates of the site do not wait any longer. Call this method after its connection has ended.
   */
  async settle(site: string): Promise<void> {
    for (const each of logClasses) {
      const place = placeOf(site, each);
      this.#waiting.get(place)?.abort();
      await this.#bySite.run(place, async () => {});
    }
  }

  /** Ends the turns of all sites, and rejects the requests of sites that wait for their turn. */
  async close(): Promise<void> {
    for (const site of [...this.#turns.keys()]) this.#endTurn(site);
  }

  #awaitTurn(site: string): Promise<{ forMs: number }> {
    this.#endTurn(site);
    return new Promise((resolve, reject) => {
      let enter = (): void => {};
      const refuse = (): void =>
        reject(
          new EdgeError(
            'ERR_SITE_LINK',
            'the site requested its turn to send again, or its turn has ended',
          ),
        );
      const slot = this.#slots.enter(site, () => enter());
      const turn: Turn = { slot, refuse, timer: undefined };
      this.#turns.set(site, turn);
      enter = () => {
        turn.timer = setTimeout(() => this.#endTurn(site, turn), turnMs + lateMs).unref();
        resolve({ forMs: turnMs });
      };
      if (!slot.isWaiting) enter();
    });
  }

  #endTurn(site: string, only?: Turn): void {
    const turn = this.#turns.get(site);
    if (turn === undefined || (only !== undefined && turn !== only)) return;
    this.#turns.delete(site);
    clearTimeout(turn.timer);
    turn.refuse();
    turn.slot.leave();
  }

  /**
   * Decodes and applies a batch, when the rates of its site permit it. If another cluster member has
   * changed the position or the row of the site in the meantime, checks and applies the batch again.
   * Makes at most 16 attempts.
   */
  async #receive(
    site: string,
    name: LogClass,
    log: string,
    bytes: Uint8Array,
  ): Promise<Acknowledgement> {
    const turn = this.#turns.get(site);
    if (bulkClasses.includes(name) && (turn === undefined || turn.slot.isWaiting)) {
      throw new EdgeError(
        'ERR_SITE_LINK',
        'returns and facts refused: it is not the turn of this site; request the turn first',
      );
    }
    const items = await this.#decode(site, name, bytes);
    await this.#awaitRate(site, name, (place) => this.#rates.take(place, name, items));
    return retryConflicts(() => this.#apply(site, name, log, items), maxAttempts);
  }

  /**
   * Decodes a batch. A batch that cannot be decoded counts towards the rates of the site too.
   * Otherwise a site could make the centre decompress any number of batches.
   * @throws EdgeError ERR_SITE_MESSAGE, and the errors of `#awaitRate`
   */
  async #decode(site: string, name: LogClass, bytes: Uint8Array): Promise<readonly SentItem[]> {
    try {
      return decodeBatch(bytes);
    } catch (error) {
      await this.#awaitRate(site, name, (place) => this.#rates.takeMalformed(place, name));
      throw error;
    }
  }

  /**
   * Waits until the rates of a site permit a batch. Ends early if the site is revoked meanwhile.
   * @param take - counts the batch, and returns the time to wait in milliseconds
   * @throws EdgeError ERR_SITE_REFUSED if the site is not joined, ERR_SITE_LINK if the centre closes
   * meanwhile
   */
  async #awaitRate(site: string, name: LogClass, take: (place: string) => number): Promise<void> {
    // A revocation waits for all received batches, so they must not wait one after the other.
    if (!this.#sites.isJoined(site)) throw notJoined(site);
    const place = placeOf(site, name);
    const milliseconds = take(place);
    if (milliseconds === 0) return;
    const { closing } = this.#host;
    const settled = new AbortController();
    this.#waiting.set(place, settled);
    await this.#sleep(milliseconds, settled.signal, closing);
    this.#waiting.delete(place);
    if (closing.aborted) throw new EdgeError('ERR_SITE_LINK', 'the centre is shutting down');
  }

  /**
   * Returns an operation for the write that stores a site's entries. The operation makes the write
   * fail if the site is not joined any more.
   * @throws EdgeError ERR_SITE_REFUSED if the site is not joined
   */
  async #requireJoined(site: string): Promise<StateOperation> {
    const key = [...sitesPrefix, site];
    const entry = await this.#host.shared.get(key);
    if (entry === undefined || siteRow.decode(entry).state !== 'joined') {
      throw notJoined(site);
    }
    return { op: 'require', key, ifRevision: entry.revision };
  }

  async #apply(
    site: string,
    name: LogClass,
    log: string,
    items: readonly SentItem[],
  ): Promise<Acknowledgement> {
    const { shared } = this.#host;
    const joined = await this.#requireJoined(site);
    const key = ['centre', 'position', site, name];
    const stored = await shared.get(key);
    const known = stored && positionRow.decode(stored);
    const isSameLog = known?.log === log;
    const [first] = items;
    const begin = first === undefined ? 0 : isMarker(first) ? first.from : first.sequence;
    const from = isSameLog ? known.sequence : begin - 1;
    if (begin > from + 1) {
      // Entries are missing, for example because the store of this centre was restored from a
      // backup. The site will begin a new log.
      const missing = `${from + 1} to ${begin - 1}`;
      this.#warnings.warn(
        `missing ${site}`,
        { site, class: name, missing },
        'log entries of a site are missing on this centre; the site begins a new log',
      );
      return { sequence: from, refused: [] };
    }
    const position: Mutable<LogPosition> = {
      log,
      sequence: from,
      ms: known?.ms ?? 0,
      dropped: known?.dropped ?? 0,
      refused: known?.refused ?? 0,
    };
    const operations: StateOperation[] = [];
    const refused: Refusal[] = [];
    let further = 0;
    const accepted: LogEntry[] = [];
    const repeated: LogEntry[] = [];
    let elements = 0;
    /** Sequence number of the last item that was handled. */
    let handled = begin - 1;
    // A small batch may contain many large values.
    const budget = new WorkBudget(unlimitedSteps);
    for (const item of items) {
      const last = lastOf(item);
      const isKnown = last <= position.sequence;
      if (isMarker(item)) {
        handled = last;
        if (isKnown) continue;
        const dropped = last - Math.max(position.sequence, item.from - 1);
        position.dropped += dropped;
        this.#figures.dropped += dropped;
        position.sequence = last;
        continue;
      }
      await budget.giveWayAfter(item.value.length * stepsOfByte);
      const read = entryOf(site, name, item);
      elements += read?.elements ?? 0;
      // The site sends the rest again, because it is not acknowledged.
      if (elements > maxElements && handled >= begin) break;
      handled = last;
      if (isKnown) {
        this.#figures.duplicates += 1;
        if (read !== undefined) repeated.push(read.entry);
        continue;
      }
      position.sequence = last;
      position.ms = item.ms;
      // The site may have been revoked during an earlier entry. Some handlers write at once.
      if (!this.#sites.isJoined(site)) throw notJoined(site);
      try {
        const { entry } = read ?? unreadable();
        const handler = this.#handlerOf(entry);
        operations.push(...((await handler.operations?.(entry)) ?? []));
        accepted.push(entry);
      } catch (error) {
        if (!(error instanceof EdgeError)) throw error;
        position.refused += 1;
        this.#figures.refused += 1;
        const reason = `${error.code}: ${error.message}`.slice(0, 300);
        if (refused.length < maxRefused) refused.push({ sequence: last, reason });
        else further += 1;
      }
    }
    const byHandler = Map.groupBy(accepted, ({ kind }) => this.#handlers.get(kind));
    for (const [handler, entries] of byHandler) {
      operations.push(...((await handler?.batchOperations?.(entries)) ?? []));
    }
    if (position.sequence > from || !isSameLog) {
      const ifRevision = stored?.revision ?? 0;
      const value = positionRow.encode(position);
      await shared.write([joined, ...operations, { op: 'put', key, value, ifRevision }]);
    }
    this.#figures.applied += accepted.length;
    await this.#callApplied(placeOf(site, name), log, [...repeated, ...accepted], budget);
    const [firstRefused] = refused;
    if (firstRefused !== undefined) {
      this.#warnings.warn(
        `refused ${site}`,
        { site, class: name, first: firstRefused, refused: position.refused },
        'rejected log entries of a site; `first` is one of them, `refused` the number in this class so far, and `times` the number of batches since the last message',
      );
    }
    const isWhole = handled === lastOf(items.at(-1) ?? unreadable());
    const reported = further === 0 ? refused : withFurther(refused, further);
    return { sequence: isWhole ? position.sequence : handled, refused: reported };
  }

  /**
   * Returns the handler of an entry.
   * @throws EdgeError ERR_SITE_MESSAGE if entries of this kind have no handler, or are not accepted
   * in the class of the entry
   */
  #handlerOf({ kind, class: name }: LogEntry): LogEntryHandler {
    const handler = this.#handlers.get(kind);
    if (handler === undefined) {
      const text = `the centre does not know log entries of the kind ${kind}; update the centre`;
      throw new EdgeError('ERR_SITE_MESSAGE', text);
    }
    if (entryKinds.get(kind)?.includes(name) === true) return handler;
    const text = `log entries of the kind ${kind} are not accepted in the class ${name}`;
    throw new EdgeError('ERR_SITE_MESSAGE', text);
  }

  async #callApplied(
    place: string,
    log: string,
    entries: readonly LogEntry[],
    budget: WorkBudget,
  ): Promise<void> {
    const done = this.#appliedTo.get(place);
    const doneTo = done?.log === log ? done.sequence : 0;
    for (const entry of entries) {
      if (entry.sequence <= doneTo) continue;
      await budget.giveWayAfter(entry.packed.length * stepsOfByte);
      await this.#handlers.get(entry.kind)?.applied?.(entry);
      this.#appliedTo.set(place, { log, sequence: entry.sequence });
    }
  }
}

/** Returns the key under which the batches of a site and class are applied in order. */
function placeOf(site: string, name: LogClass): string {
  return `${site} ${name}`;
}

function notJoined(site: string): EdgeError {
  return new EdgeError('ERR_SITE_REFUSED', `entries refused: the site ${site} is not joined`);
}

type Refusal = Acknowledgement['refused'][number];

/** Adds to the last refusal how many further entries of the batch were refused. */
function withFurther(refused: readonly Refusal[], further: number): Refusal[] {
  return refused.map((each, index) => {
    if (index < refused.length - 1) return each;
    const reason = `${each.reason.slice(0, 200)} (and ${further} further entries were refused)`;
    return { ...each, reason };
  });
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Received entry, with the number of list elements and map entries of its value. */
interface ReadEntry {
  readonly entry: LogEntry;
  readonly elements: number;
}

/**
 * Converts a received entry, and adds the name of its site. Returns `undefined` if the value of the
 * entry is malformed.
 */
function entryOf(site: string, name: LogClass, item: SentEntry): ReadEntry | undefined {
  const { sequence, ms, count, kind, value: packed } = item;
  try {
    const { value, elements } = decodeAndCount(packed);
    const at = { ms, count };
    return { entry: { site, class: name, kind, value, sequence, at, packed }, elements };
  } catch {
    return undefined;
  }
}

function unreadable(): never {
  throw new EdgeError('ERR_SITE_MESSAGE', 'the value of the entry is malformed');
}
