/** Runs slow patterns in a worker thread, within a time budget. */

import { compilePattern, type PatternCompiler } from '#minion-protocol';
import { WorkerPool, WorkerPoolError } from '#runtime';
import { badTarget } from '../arguments/index.ts';

/** An expression with the texts to try it on. */
export interface SlowQuestion {
  /** For `new RegExp(source, flags)`. */
  readonly source: string;
  readonly flags: string;
  readonly texts: readonly string[];
}

/** What all slow expressions of one target may take together, over all minions. */
const slowBudgetMs = 250;
/** Time that the thread is kept for the next target, in milliseconds. */
const slowIdleMs = 5000;

/**
 * Runs regular expressions with lookaround and back-references, which no engine bounds, in a
 * thread that is ended when their time is up. One target at a time.
 */
export class SlowPatternRunner {
  readonly #budgetMs: number;
  readonly #pool: WorkerPool<readonly SlowQuestion[], boolean[][]>;

  /** @param options `budgetMs`: milliseconds for one target. Default 250 */
  constructor(options: { readonly budgetMs?: number } = {}) {
    this.#budgetMs = options.budgetMs ?? slowBudgetMs;
    this.#pool = new WorkerPool({
      script: new URL('./slow-pattern-worker.ts', import.meta.url),
      threads: 1,
      deadlineMs: this.#budgetMs,
      idleMs: slowIdleMs,
    });
  }

  /**
   * For each question, whether its texts match, in their order.
   * @throws MasterError ERR_BAD_TGT when it takes too long
   */
  async run(questions: readonly SlowQuestion[]): Promise<boolean[][]> {
    try {
      return await this.#pool.run(questions);
    } catch (error) {
      if (!(error instanceof WorkerPoolError) || error.reason !== 'deadline') throw error;
      const reason = `a regular expression takes more than ${this.#budgetMs} ms over all minions`;
      throw badTarget(reason, { cause: error });
    }
  }
}

interface SlowPattern {
  readonly source: string;
  readonly flags: string;
  /** Texts that a minion's match depends on; the answer when it is known. */
  readonly answers: Map<string, boolean>;
}

/**
 * The slow patterns of one target. Matching the minions a first time finds the texts that matter,
 * {@link SlowPatterns.settle} tries them elsewhere, and the second time the answers are there.
 */
export class SlowPatterns {
  readonly #patterns: SlowPattern[] = [];

  /** Whether any pattern needs this. */
  get isNeeded(): boolean {
    return this.#patterns.length > 0;
  }

  /** For the compiler of the target. */
  readonly compile: PatternCompiler = (pattern, meter) => {
    const compiled = compilePattern(pattern, meter);
    if (compiled.kind === 'linear') return compiled.test;
    const { source, flags } = compiled;
    const answers = new Map<string, boolean>();
    this.#patterns.push({ source, flags, answers });
    return (text) => {
      meter?.spend('matching of a regular expression', 1 + text.length / 16);
      const answer = answers.get(text);
      if (answer === undefined) answers.set(text, false);
      return answer === true;
    };
  };

  /** @throws MasterError ERR_BAD_TGT when it takes too long */
  async settle(runner: SlowPatternRunner): Promise<void> {
    const questions = this.#patterns.map(({ source, flags, answers }) => ({
      source,
      flags,
      texts: [...answers.keys()],
    }));
    const results = await runner.run(questions);
    for (const [index, { answers }] of this.#patterns.entries()) {
      const texts = questions[index]?.texts ?? [];
      for (const [at, text] of texts.entries()) answers.set(text, results[index]?.[at] === true);
    }
  }
}
