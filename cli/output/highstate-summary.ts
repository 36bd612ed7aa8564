/** The counts below a minion's states. */
import type { Colors } from './colors.ts';
import { escapeName } from './escape.ts';
import type { StateResult } from './highstate-state.ts';

/** Room for the longest label, `Succeeded`. */
const labelWidth = 9;

/** Counts states as they are shown. */
export class HighstateSummary {
  readonly #host: string;
  readonly #colors: Colors;
  readonly #counts = { succeeded: 0, failed: 0, notRun: 0, warnings: 0 };
  #changed = 0;
  #duration = 0;
  #longestParallel = 0;

  constructor(host: string, colors: Colors) {
    this.#host = host;
    this.#colors = colors;
  }

  get hasChanges(): boolean {
    return this.#changed > 0;
  }

  add(state: StateResult, hasChanges: boolean): void {
    if (state.result === false) this.#counts.failed += 1;
    else if (state.result === null) this.#counts.notRun += 1;
    else this.#counts.succeeded += 1;
    if (state.warnings.length > 0) this.#counts.warnings += 1;
    if (hasChanges) this.#changed += 1;
    const duration = Number.parseFloat(String(state.duration ?? 0)) || 0;
    if (state.isParallel) this.#longestParallel = Math.max(this.#longestParallel, duration);
    else this.#duration += duration;
  }

  /** Begins with an empty line. */
  format(): string {
    const { cyan, green, red, lightRed, end } = this.#colors;
    const { succeeded, failed, notRun, warnings } = this.#counts;
    const rule = '-'.repeat(this.#width);
    const total = succeeded + failed + notRun;
    const lines = [
      `${cyan}\nSummary for ${escapeName(this.#host)}\n${rule}${end}`,
      `${green}${this.#line('Succeeded', succeeded + notRun)}${end}${this.#changes()}`,
      `${failed > 0 ? red : cyan}${this.#line('Failed', failed)}${end}`,
    ];
    if (warnings > 0) lines.push(`${lightRed}${this.#line('Warnings', warnings)}${end}`);
    lines.push(`${cyan}${rule}\nTotal states run: ${this.#right(total, this.#width - 7)}${end}`);
    lines.push(`${cyan}Total run time: ${this.#time()}${end}`);
    return lines.join('\n');
  }

  get #width(): number {
    const { succeeded, failed, notRun, warnings } = this.#counts;
    const digits = [succeeded, failed, notRun, warnings].map((count) => String(count).length);
    const isEmpty = succeeded + failed + notRun + warnings === 0;
    return labelWidth + (isEmpty ? 1 : Math.max(...digits)) + 2;
  }

  #line(label: string, count: number): string {
    return `${label}: ${this.#right(count, this.#width - label.length - 2)}`;
  }

  #right(count: number | string, width: number): string {
    return String(count).padStart(width);
  }

  #changes(): string {
    const { lightYellow, green, end } = this.#colors;
    const parts: string[] = [];
    if (this.#counts.notRun > 0) parts.push(`${lightYellow}unchanged=${this.#counts.notRun}${end}`);
    if (this.#changed > 0) parts.push(`${green}changed=${this.#changed}${end}`);
    return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
  }

  #time(): string {
    const milliseconds = this.#duration + this.#longestParallel;
    const isLong = milliseconds > 999;
    const value = (isLong ? milliseconds / 1000 : milliseconds).toFixed(3);
    return `${this.#right(value, this.#width - 5)} ${isLong ? 's' : 'ms'}`;
  }
}
