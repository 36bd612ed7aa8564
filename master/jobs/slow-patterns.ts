import { compilePattern, type PatternCompiler } from '#minion-protocol';
import { WorkerPool, WorkerPoolError } from '#runtime';
import { badTarget } from '../arguments/index.ts';
import { jobLimits } from './limits.ts';

/** Regular expression, and the texts to match with it. */
export interface SlowQuestion {
  /** Source of the regular expression, as in `new RegExp(source, flags)`. */
  readonly source: string;
  readonly flags: string;
  readonly texts: readonly string[];
}

/**
 * Time limit for matching all slow regular expressions of a target against all minions, in
 * milliseconds.
 */
const slowBudgetMs = 250;
/** Time after which an idle thread ends, in milliseconds. */
const slowIdleMs = 5000;

/**
 * Matches regular expressions with lookaround and back-references in a worker thread, because no
 * engine limits their running time. The thread is terminated at the time limit. Targets are
 * processed one at a time.
 */
export class SlowPatternRunner {
  readonly #budgetMs: number;
  readonly #pool: WorkerPool<readonly SlowQuestion[], boolean[][]>;

  /** @param options - `budgetMs`: time limit for one target, in milliseconds. Default: 250 */
  constructor(options: { readonly budgetMs?: number } = {}) {
    this.#budgetMs = options.budgetMs ?? slowBudgetMs;
    this.#pool = new WorkerPool(jobLimits.slowPatternThreads, {
      script: new URL('./slow-pattern-worker.ts', import.meta.url),
      threads: 1,
      deadlineMs: this.#budgetMs,
      idleMs: slowIdleMs,
    });
  }

  /**
   * Matches the texts of each question against the pattern of the question. Returns one list of
   * results per question, in the order of its texts.
   * @param owner - minion whose request needs the results. Default: users without restrictions
   * @throws MasterError ERR_BAD_TGT if it takes too long
   */
  async run(questions: readonly SlowQuestion[], owner = ''): Promise<boolean[][]> {
    try {
      return await this.#pool.run(questions, owner);
    } catch (error) {
      if (!(error instanceof WorkerPoolError) || error.reason !== 'deadline') throw error;
      const reason = `a regular expression of the target exceeds ${this.#budgetMs} ms over all minions; simplify it`;
      throw badTarget(reason, { cause: error });
    }
  }
}

interface SlowPattern {
  readonly source: string;
  readonly flags: string;
  /**
   * Results by text. A text is added when its result is needed. Its result is `false` until
   * {@link SlowPatterns.settle}.
   */
  readonly answers: Map<string, boolean>;
}

/**
 * Slow patterns of one target. The target is evaluated twice. The first pass over the minions
 * collects the texts to match. {@link SlowPatterns.settle} matches them in the worker thread. The
 * second pass uses the results.
 */
export class SlowPatterns {
  readonly #patterns: SlowPattern[] = [];

  /** Whether the target has slow patterns. */
  get isNeeded(): boolean {
    return this.#patterns.length > 0;
  }

  /** Compiles a pattern. The compiler of the target calls it. */
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

  /**
   * Tests the collected texts.
   * @param owner - minion whose request needs the results. Default: users without restrictions
   * @throws MasterError ERR_BAD_TGT if it takes too long
   */
  async settle(runner: SlowPatternRunner, owner?: string): Promise<void> {
    const questions = this.#patterns.map(({ source, flags, answers }) => ({
      source,
      flags,
      texts: [...answers.keys()],
    }));
    const results = await runner.run(questions, owner);
    for (const [index, { answers }] of this.#patterns.entries()) {
      const texts = questions[index]?.texts ?? [];
      for (const [at, text] of texts.entries()) answers.set(text, results[index]?.[at] === true);
    }
  }
}
