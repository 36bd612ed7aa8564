/** State of one rendering, shared by all its templates. */

import type { WorkMeter } from '#runtime';
import { tryAttribute } from '../python/attributes.ts';
import { PythonException } from '../python/exceptions.ts';
import type { FieldLookup } from '../python/format-fields.ts';
import { type TemplateLimits, UsageMeter } from '../python/limits.ts';
import { describeObject, repr, str, textRepr, typeName } from '../python/repr.ts';
import { tryItem } from '../python/subscripts.ts';
import { isText, textOf, Undefined, type Value } from '../python/values.ts';
import type { Module } from './objects.ts';
import type { Template } from './template.ts';

/**
 * Resolves the name of a template. A name that begins with `./` or `../` is relative to the
 * importing template. Returns `undefined` if the path leaves the root of the templates.
 */
function resolvePath(name: string, tpldir: Value | undefined): string | undefined {
  const [first] = name.split('/', 1);
  const isRelative = first === '.' || first === '..';
  if (isRelative && typeof tpldir !== 'string') return undefined;
  const parts: string[] = [];
  for (const part of (isRelative ? `${tpldir}/${name}` : name).split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) return undefined;
  }
  return parts.join('/');
}

/** Returns the `tpl…` variables of a loaded template. */
export function tplNames(path: string): ReadonlyMap<string, Value> {
  const directory = path.split('/').slice(0, -1).join('/');
  return new Map([
    ['tplfile', path],
    ['tpldir', directory === '' ? '.' : directory],
    ['tpldot', directory.replaceAll('/', '.')],
  ]);
}

/** Source of values by name. */
export interface NameLookup {
  get(name: string): Value | undefined;
}

/** Loads the templates that a template includes, imports or extends. */
export interface TemplateLoader {
  /**
   * Returns a parsed template, or `undefined` if it does not exist. An exception ends the rendering
   * and reaches the caller unchanged. A loader that must read a file asynchronously can therefore
   * throw. The caller then reads the file and renders again.
   */
  load(name: string): Template | undefined;
}

/**
 * Converts a printed value to text. It is not called for output of macros and blocks, because their
 * values were already printed. It is also not called for values that a filter has written as JSON
 * or YAML.
 */
export type ValuePrinter = (value: Value, meter: WorkMeter) => string;

/** Options of a rendering. */
export interface RenderOptions {
  /** Variables as plain data. Each is converted at its first use. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Loader for includes, imports and extends. Default: no template is found. */
  readonly loader?: TemplateLoader;
  /** Limits of the rendering. Limits that are not given have their defaults. */
  readonly limits?: Partial<TemplateLimits>;
  /**
   * Whether the use of an undefined value is an error; the opposite of Salt's `allow_undefined`.
   * Default: true.
   */
  readonly strict?: boolean;
  /** Returns the current time, for `strftime` without a date. */
  readonly now?: () => Date;
  /** Returns a random number from 0 to below 1, for the filter `random`. */
  readonly random?: () => number;
  /** Prints the value of `{{ … }}`. Default: `str(value)`. */
  readonly print?: ValuePrinter;
}

/** Special attributes of Python objects, which templates must not access. */
const dunder = /^__\w+__$/;

/** State of one rendering. */
export class Rendering implements FieldLookup {
  readonly meter: UsageMeter;
  readonly isStrict: boolean;
  readonly now: () => Date;
  readonly random: () => number;
  readonly print: ValuePrinter | undefined;
  /** Name of the file that is being rendered, for errors. */
  file: string;
  line = 1;
  /**
   * Results of imports without context, by imported template. Each of these templates runs only
   * once in a rendering.
   */
  readonly modules: Map<Template, Module> = new Map();
  readonly #names: NameLookup;
  readonly #loader: TemplateLoader | undefined;
  readonly #templates = new Map<string, Template>();
  /** Variables with which Salt describes the current file. */
  #tpl: ReadonlyMap<string, Value> = new Map();

  constructor(file: string, names: NameLookup, options: RenderOptions) {
    this.file = file;
    this.#names = names;
    this.#loader = options.loader;
    this.meter = new UsageMeter(options.limits);
    this.isStrict = options.strict ?? true;
    this.now = options.now ?? (() => new Date());
    this.random = options.random ?? Math.random;
    this.print = options.print;
  }

  /** Returns the names visible to every template. */
  globals(): NameLookup {
    const tpl = this.#tpl;
    const names = this.#names;
    return { get: (name) => tpl.get(name) ?? names.get(name) };
  }

  undefinedName(name: string): Undefined {
    return this.undefinedBecause(`${textRepr(name)} is undefined`);
  }

  undefinedBecause(message: string): Undefined {
    return new Undefined(message, this.isStrict);
  }

  /** Returns `value.name` by the rules of jinja2's sandbox. */
  attribute(value: Value, name: string): Value {
    if (dunder.test(name) && knownDunders.has(name)) return this.#unsafe(value, name);
    if (value instanceof Undefined) throw value.error();
    const found = tryAttribute(value, name, { meter: this.meter, lookup: this });
    return found ?? (found === null ? null : this.#itemOr(value, name));
  }

  #itemOr(value: Value, name: string): Value {
    const found = tryItem(value, name);
    return found === undefined ? this.#missing(value, name) : found;
  }

  /** Returns `value[key]` by the rules of jinja2's sandbox. */
  item(value: Value, key: Value): Value {
    if (value instanceof Undefined) throw value.error();
    const found = tryItem(value, key);
    if (found !== undefined) return found;
    if (!isText(key)) return this.#missing(value, key);
    const name = textOf(key);
    if (dunder.test(name) && knownDunders.has(name)) return this.#unsafe(value, name);
    const attribute = tryAttribute(value, name, { meter: this.meter, lookup: this });
    return attribute === undefined ? this.#missing(value, key) : attribute;
  }

  #missing(value: Value, key: Value): Undefined {
    return this.undefinedBecause(
      isText(key)
        ? `${textRepr(describeObject(value))} has no attribute ${repr(key)}`
        : `${describeObject(value)} has no element ${repr(key)}`,
    );
  }

  #unsafe(value: Value, name: string): Undefined {
    const message = `access to attribute ${textRepr(name)} of ${textRepr(typeName(value))} object is unsafe.`;
    return new Undefined(message, this.isStrict, 'SecurityError');
  }

  /**
   * Returns a parsed template.
   * @throws PythonException TemplateNotFound; TemplateError if it is invalid
   */
  template(name: Value): Template {
    if (name instanceof Undefined) throw name.error();
    const path = isText(name) ? resolvePath(textOf(name), this.globals().get('tpldir')) : undefined;
    const template = path === undefined ? undefined : this.#find(path);
    if (template === undefined) throw new PythonException('TemplateNotFound', str(name));
    return template;
  }

  /**
   * Returns the first existing template.
   * @throws PythonException TemplatesNotFound
   */
  firstTemplate(names: readonly Value[]): Template {
    for (const name of names) {
      try {
        return this.template(name);
      } catch (error) {
        if (!(error instanceof PythonException) || !isTemplateMissing(error)) throw error;
      }
    }
    const list = names.map((name) => (name instanceof Undefined ? name.message : str(name)));
    throw new PythonException(
      'TemplatesNotFound',
      names.length === 0
        ? 'Tried to select from an empty list of templates'
        : `none of the templates given were found: ${list.join(', ')}`,
    );
  }

  #find(path: string): Template | undefined {
    const known = this.#templates.get(path);
    if (known !== undefined) return known;
    const template = this.#loader?.load(path);
    if (template === undefined) return undefined;
    this.#tpl = tplNames(path);
    this.#templates.set(path, template);
    return template;
  }
}

/** Whether an error means that a template does not exist. */
export function isTemplateMissing({ kind }: PythonException): boolean {
  return kind === 'TemplateNotFound' || kind === 'TemplatesNotFound' || kind === 'UndefinedError';
}

const knownDunders: ReadonlySet<string> = new Set(
  'class doc init new repr str eq ne lt le gt ge hash dir delattr getattribute setattr reduce reduce_ex sizeof format init_subclass subclasshook'
    .split(' ')
    .map((word) => `__${word}__`),
);
