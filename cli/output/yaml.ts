/** YAML as libyaml writes it for PyYAML's `safe_dump` [salt output/yaml_out.py; libyaml emitter.c]. */
import { WireDateTime, WireExtension, type WireValue } from '../../minion-protocol/index.ts';
import { entriesByKey, mapEntries } from './map-entries.ts';
import { pythonNumber } from './python.ts';
import { YamlLines } from './yaml-lines.ts';
import { chooseStyle } from './yaml-scalar.ts';

/** How YAML is laid out. */
export interface YamlOptions {
  /** Spaces for each level, 2 to 9; negative: everything in flow style. Default 2. */
  readonly indent?: number | undefined;
}

/** The value as YAML, keys sorted, without a newline at its end. */
export function formatYaml(value: WireValue, { indent = 2 }: YamlOptions = {}): string {
  const isFlow = indent < 0;
  const perLevel = indent >= 2 && indent <= 9 ? indent : 2;
  const writer = new YamlWriter(perLevel, isFlow);
  writer.write(value, { indent: -1, isInMap: false, isKey: false, isInFlow: false });
  return writer.text;
}

/** Where a value is written. */
interface Place {
  readonly indent: number;
  /** Whether it is the value of a map, whose lists need no indentation of their own. */
  readonly isInMap: boolean;
  readonly isKey: boolean;
  readonly isInFlow: boolean;
}

class YamlWriter {
  readonly #perLevel: number;
  readonly #isFlow: boolean;
  readonly #lines = new YamlLines();

  constructor(perLevel: number, isFlow: boolean) {
    this.#perLevel = perLevel;
    this.#isFlow = isFlow;
  }

  get text(): string {
    return this.#lines.text;
  }

  write(value: WireValue, place: Place): void {
    if (value instanceof WireExtension) this.write([value.code, value.data], place);
    else if (Array.isArray(value)) this.#writeList(value, place);
    else if (value instanceof Uint8Array) this.#writeBytes(value, place);
    else if (mapEntries(value) !== undefined) this.#writeMap(value, place);
    else this.#writeScalar(value, place);
  }

  #writeList(items: readonly WireValue[], place: Place): void {
    const lines = this.#lines;
    if (this.#isFlow || place.isInFlow || items.length === 0) {
      const indent = this.#flowIndent(place.indent);
      lines.indicator('[', { needsBlank: true, isBlank: true });
      for (const [index, item] of items.entries()) {
        if (index > 0) lines.indicator(',');
        if (lines.isFull) lines.indent(indent);
        this.write(item, { indent, isInMap: false, isKey: false, isInFlow: true });
      }
      lines.indicator(']');
      return;
    }
    const isFlush = place.isInMap && !lines.isAtIndent;
    const indent = isFlush ? place.indent : this.#blockIndent(place.indent);
    for (const item of items) {
      lines.indent(indent);
      lines.indicator('-', { needsBlank: true, isIndent: true });
      this.write(item, { indent, isInMap: false, isKey: false, isInFlow: false });
    }
  }

  #writeMap(map: WireValue, place: Place): void {
    const lines = this.#lines;
    const entries = entriesByKey(map, 'keep');
    if (this.#isFlow || place.isInFlow || entries.length === 0) {
      const indent = this.#flowIndent(place.indent);
      lines.indicator('{', { needsBlank: true, isBlank: true });
      for (const [index, [key, item]] of entries.entries()) {
        if (index > 0) lines.indicator(',');
        if (lines.isFull) lines.indent(indent);
        this.#writeEntry(key, item, { indent, isInMap: true, isKey: false, isInFlow: true });
      }
      lines.indicator('}');
      return;
    }
    const indent = this.#blockIndent(place.indent);
    for (const [key, item] of entries) {
      lines.indent(indent);
      this.#writeEntry(key, item, { indent, isInMap: true, isKey: false, isInFlow: false });
    }
  }

  #writeEntry(key: WireValue, item: WireValue, place: Place): void {
    const isSimple = isSimpleKey(key);
    if (!isSimple) this.#lines.indicator('?', { needsBlank: true, isIndent: !place.isInFlow });
    this.write(key, { ...place, isKey: isSimple });
    if (!isSimple && !place.isInFlow) this.#lines.indent(place.indent);
    this.#lines.indicator(':', { needsBlank: !isSimple, isIndent: !isSimple && !place.isInFlow });
    this.write(item, place);
  }

  #writeScalar(value: WireValue, place: Place): void {
    if (typeof value !== 'string') {
      this.#lines.plain(plainText(value), { indent: place.indent, canBreak: false });
      return;
    }
    const indent = this.#blockIndent(place.indent, place.isInFlow);
    this.#lines[chooseStyle(value, place)](value, { indent, canBreak: !place.isKey });
  }

  #writeBytes(bytes: Uint8Array, place: Place): void {
    const indent = this.#blockIndent(place.indent);
    const lines =
      Buffer.from(bytes)
        .toString('base64')
        .match(/.{1,76}/g) ?? [];
    if (this.#isFlow || place.isInFlow || lines.length === 0) {
      this.#lines.plain('!!binary', { indent, canBreak: false });
      const text = lines.map((line) => `${line}\n`).join('');
      this.#lines.double(text, { indent, canBreak: false });
      return;
    }
    this.#lines.plain('!!binary |', { indent, canBreak: false });
    for (const line of lines) {
      this.#lines.indent(indent);
      this.#lines.plain(line, { indent, canBreak: false });
    }
    this.#lines.endBlock();
  }

  #blockIndent(indent: number, isFlow = false): number {
    if (indent < 0) return isFlow ? this.#perLevel : 0;
    return indent + this.#perLevel;
  }

  #flowIndent(indent: number): number {
    return this.#blockIndent(indent, true);
  }
}

/** Longer keys are marked with `?`. */
const maxSimpleKey = 128;

function isSimpleKey(key: WireValue): boolean {
  if (typeof key !== 'string') return !(key instanceof Uint8Array);
  return key.length <= maxSimpleKey && !/[\r\n\x85\u2028\u2029]/.test(key);
}

function plainText(value: WireValue): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (value instanceof WireDateTime) return value.text;
  if (typeof value === 'number' && !Number.isFinite(value)) {
    if (Number.isNaN(value)) return '.nan';
    return value > 0 ? '.inf' : '-.inf';
  }
  if (typeof value !== 'number' && typeof value !== 'bigint') return '';
  const text = pythonNumber(value);
  return /^-?\d+e/.test(text) ? text.replace('e', '.0e') : text;
}
