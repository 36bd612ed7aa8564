/** OpenTelemetry traces of runs, and of the signals that runs cause. */

import type { Context, Span, Tracer } from '@opentelemetry/api';
import { FairTable, loadOptionalPackage } from '#runtime';
import type { CommandRun } from './commands/command-run.ts';
import { bridgeLimits } from './limits.ts';
import type { OutboxRecord } from './signals/outbox-records.ts';

type Api = typeof import('@opentelemetry/api');

/**
 * Symbol of the global registry that all copies of the OpenTelemetry API use. The program registers
 * its providers there.
 */
const registry = Symbol.for('opentelemetry.js.api.1');

/** Maximum number of minions with their own span, for each run. */
const maxReturns = 1_000;

/**
 * Creates spans `saltbridge.run`, with the children `saltbridge.publish`, `saltbridge.return` and
 * `saltbridge.signal`. Their attributes are only names, ids and states. They contain no parameters,
 * results, pillar data or tokens.
 */
export class Traces {
  readonly #api: Api;
  readonly #tracer: Tracer;
  readonly #jobs = new FairTable<{ context: Context; minions: ReadonlySet<string> }>(
    bridgeLimits.tracedJobs,
  );
  readonly #signals = new FairTable<Context>(bridgeLimits.tracedSignals);

  private constructor(api: Api) {
    this.#api = api;
    this.#tracer = api.trace.getTracer('saltbridge');
  }

  /**
   * Creates an object that traces runs with the OpenTelemetry provider of the program. Returns
   * `undefined` if the program has not registered a provider.
   * @throws SaltbridgeError ERR_PACKAGE_MISSING if `@opentelemetry/api` is not installed
   */
  static async open(): Promise<Traces | undefined> {
    const { trace }: { trace?: unknown } = Object(Reflect.get(globalThis, registry));
    if (trace === undefined) return undefined;
    const need = 'tracing, for which the program has registered a provider,';
    const load = (): Promise<Api> => import('@opentelemetry/api');
    return new Traces(await loadOptionalPackage('@opentelemetry/api', need, load));
  }

  /** Starts the span of a run as a child of the active span. The span ends with the run. */
  follow(run: Pick<CommandRun, 'command' | 'id' | 'minions' | 'owner' | 'updates'>): void {
    const { context, trace } = this.#api;
    const { id, command, minions } = run;
    const attributes = {
      'saltbridge.run': id,
      'saltbridge.command': command,
      'saltbridge.minions': minions.length,
    };
    const span = this.#tracer.startSpan('saltbridge.run', { attributes });
    const inside = trace.setSpan(context.active(), span);
    this.#watch(run, span, inside).catch(() => this.#end(span, false));
  }

  async #watch(
    run: Pick<CommandRun, 'minions' | 'owner' | 'updates'>,
    span: Span,
    inside: Context,
  ): Promise<void> {
    let publishing: Span | undefined = this.#tracer.startSpan('saltbridge.publish', {}, inside);
    let publishedAt = Date.now();
    let returns = 0;
    for await (const update of run.updates()) {
      switch (update.type) {
        case 'published': {
          const attributes = { 'saltbridge.jid': update.jid };
          const job = { context: inside, minions: new Set(run.minions) };
          this.#jobs.trySet(run.owner, update.jid, job);
          // If the command is retried on a minion, it is published again.
          publishing ??= this.#tracer.startSpan('saltbridge.publish', {}, inside);
          publishing.setAttributes(attributes).end();
          publishing = undefined;
          publishedAt = Date.now();
          break;
        }
        case 'result': {
          returns += 1;
          if (returns > maxReturns) break;
          const { minion, state } = update.result;
          const attributes = { 'saltbridge.minion': minion, 'saltbridge.state': state };
          const options = { attributes, startTime: publishedAt };
          const result = this.#tracer.startSpan('saltbridge.return', options, inside);
          this.#end(result, state === 'succeeded');
          break;
        }
        case 'outcome': {
          const { status } = update.outcome;
          publishing?.end();
          span.setAttribute('saltbridge.status', status);
          this.#end(span, status === 'succeeded');
        }
      }
    }
  }

  /**
   * Associates an accepted signal with the run that caused it.
   * @param jid - job that fired the signal, according to the minion
   */
  signalAccepted(minion: string, signal: string, jid: string | undefined): void {
    const job = jid === undefined ? undefined : this.#jobs.get(jid);
    if (job?.minions.has(minion)) this.#signals.trySet(minion, signal, job.context);
  }

  /**
   * Creates the span of a signal whose delivery has ended.
   * @param reason - reason why the signal became a dead letter, or `undefined` if it was delivered
   */
  signalOver(
    record: Pick<OutboxRecord, 'acceptedAt' | 'alias' | 'id' | 'minion'>,
    reason: string | undefined,
  ): void {
    const { id, alias, minion, acceptedAt } = record;
    const attributes = {
      'saltbridge.signal': id,
      'saltbridge.handle': alias,
      'saltbridge.minion': minion,
    };
    const cause = this.#signals.get(id) ?? this.#api.ROOT_CONTEXT;
    this.#signals.delete(id);
    const options = { attributes, startTime: acceptedAt };
    this.#end(this.#tracer.startSpan('saltbridge.signal', options, cause), reason === undefined);
  }

  #end(span: Span, isFine: boolean): void {
    if (!isFine) span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
    span.end();
  }
}
