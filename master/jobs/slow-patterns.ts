import { compilePattern, type PatternCompiler } from '#minion-protocol';
import { WorkerPool, WorkerPoolError } from '#runtime';
import { badTarget } from '../arguments/index.ts';
import { jobLimits } from './limits.ts';

/** Regular expression, and the texts to match with it. */
export interface SlowQuestion {
  /** Regular expression without delimiters and flags, as in `new RegExp(source, flags)`. */
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
 * Matches regular expressions with lookaround or back-references in a worker thread, because their
 * running time has no limit. The thread is terminated when the time limit of the target is over.
 * Targets are processed one at a time.
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
   * Matches the texts of each question against its pattern. Returns one list of results per
   * question, in the order of the texts.
   * @param owner - name under which the waiting calls are counted, because their number is limited
   * per owner. Empty for the operator
   * @throws MasterError ERR_BAD_TGT if matching takes longer than the time limit, or if too many
   * calls wait
   */
  async run(questions: readonly SlowQuestion[], owner: string): Promise<boolean[][]> {
    try {
      return await this.#pool.run(questions, owner);
    } catch (error) {
      if (!(error instanceof WorkerPoolError)) throw error;
      if (error.reason === 'busy') {
        const reason =
          'too many targets with lookaround or back-references are waiting; retry later, or remove lookaround and back-references from the target';
        throw badTarget(reason, { cause: error });
      }
      if (error.reason !== 'deadline') throw error;
      const reason = `a regular expression of the target exceeds ${this.#budgetMs} ms over all minions; simplify it`;
      throw badTarget(reason, { cause: error });
    }
  }
}

interface SlowPattern {
  readonly source: string;
  readonly flags: string;
  /**
   * For each text, whether the pattern matches it. If a condition tests a text that is not in the
   * map, it adds the text with the provisional result `false`. {@link SlowPatterns.settle} later
   * sets the actual result.
   */
  readonly answers: Map<string, boolean>;
}

/**
 * Regular expressions of one target whose running time has no limit. The target is evaluated twice.
 * The first pass over the minions collects the texts to match. {@link SlowPatterns.settle} matches
 * them in the worker thread. The second pass uses the results.
 */
export class SlowPatterns {
  readonly #patterns: SlowPattern[] = [];

  /**
   * Whether the target contains regular expressions whose running time has no limit. If it contains
   * none, do not call {@link SlowPatterns.settle}.
   */
  get isNeeded(): boolean {
    return this.#patterns.length > 0;
  }

  /**
   * Compiles a regular expression of the target. Pass this function to the compiler of the target.
   */
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
   * Matches, in the worker thread, the texts that the first evaluation of the target has collected.
   * Stores the results for the second evaluation.
   * @param owner - name under which the runner counts waiting calls. Empty for the operator
   * @throws MasterError ERR_BAD_TGT if matching takes longer than the time limit
   */
  async settle(runner: SlowPatternRunner, owner: string): Promise<void> {
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
