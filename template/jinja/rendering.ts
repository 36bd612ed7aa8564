/** One rendering: names of templates, values of names, and what all its templates share. */

import { tryAttribute } from '../python/attributes.ts';
import { PythonException } from '../python/exceptions.ts';
import type { FieldLookup } from '../python/format-fields.ts';
import { type TemplateLimits, UsageMeter } from '../python/limits.ts';
import { describeObject, repr, str, textRepr, typeName } from '../python/repr.ts';
import { tryItem } from '../python/subscripts.ts';
import { isText, textOf, Undefined, type Value } from '../python/values.ts';
import type { Module } from './objects.ts';
import { parseTemplate, type Template } from './template.ts';

/**
 * The path of a template: one that begins with `./` or `../` is relative to the importing one.
 * Undefined for a path that leaves the tree.
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

/** What a template that was just loaded is told about its own place. */
export function tplNames(path: string): ReadonlyMap<string, Value> {
  const directory = path.split('/').slice(0, -1).join('/');
  return new Map([
    ['tplfile', path],
    ['tpldir', directory === '' ? '.' : directory],
    ['tpldot', directory.replaceAll('/', '.')],
  ]);
}

/** Values by name; undefined where there is none. */
export interface NameLookup {
  get(name: string): Value | undefined;
}

/** Finds templates that others include, import or extend. */
export interface TemplateLoader {
  /**
   * The text of a template, or the template if it was read before, or undefined where there is
   * none. What it throws ends the rendering as it is: who has to wait for files throws, fetches,
   * and renders again.
   */
  load(name: string): string | Template | undefined;
}

/**
 * Puts a value into the text. It is not asked for what macros and blocks made, whose own values
 * went through it, nor for what a filter has written as JSON or YAML.
 */
export type ValuePrinter = (value: Value) => string;

/** What a rendering is made with. */
export interface RenderingOptions {
  readonly names: NameLookup;
  readonly loader: TemplateLoader | undefined;
  readonly limits: Partial<TemplateLimits> | undefined;
  readonly isStrict: boolean;
  readonly now: () => Date;
  readonly random: () => number;
  readonly print: ValuePrinter | undefined;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
}

/** Attributes that every object has in Python, and no template may touch. */
const dunder = /^__\w+__$/;

/** The state of one rendering. */
export class Rendering implements FieldLookup {
  readonly meter: UsageMeter;
  readonly isStrict: boolean;
  readonly now: () => Date;
  readonly random: () => number;
  readonly print: ValuePrinter | undefined;
  /** Where it is at the moment, for errors. */
  file: string;
  line = 1;
  /** Modules that were imported without context: each is run once. */
  readonly modules: Map<Template, Module> = new Map();
  readonly #options: RenderingOptions;
  readonly #templates = new Map<string, Template>();
  /** What Salt tells each template about its own file. */
  #tpl: ReadonlyMap<string, Value> = new Map();

  constructor(file: string, options: RenderingOptions) {
    this.file = file;
    this.#options = options;
    this.meter = new UsageMeter(options.limits);
    this.isStrict = options.isStrict;
    this.now = options.now;
    this.random = options.random;
    this.print = options.print;
  }

  /** The names that every template sees. */
  globals(): NameLookup {
    const tpl = this.#tpl;
    const { names } = this.#options;
    return { get: (name) => tpl.get(name) ?? names.get(name) };
  }

  undefinedName(name: string): Undefined {
    return this.undefinedBecause(`${textRepr(name)} is undefined`);
  }

  undefinedBecause(message: string): Undefined {
    return new Undefined(message, this.isStrict);
  }

  /** `value.name` as jinja2's sandbox reads it. */
  attribute(value: Value, name: string): Value {
    if (dunder.test(name) && isKnownDunder(name)) return this.#unsafe(value, name);
    if (value instanceof Undefined) throw value.error();
    const found = tryAttribute(value, name, { meter: this.meter, lookup: this });
    return found ?? (found === null ? null : this.#itemOr(value, name));
  }

  #itemOr(value: Value, name: string): Value {
    const found = tryItem(value, name);
    return found === undefined ? this.#missing(value, name) : found;
  }

  /** `value[key]` as jinja2's sandbox reads it. */
  item(value: Value, key: Value): Value {
    if (value instanceof Undefined) throw value.error();
    const found = tryItem(value, key);
    if (found !== undefined) return found;
    if (!isText(key)) return this.#missing(value, key);
    const name = textOf(key);
    if (dunder.test(name) && isKnownDunder(name)) return this.#unsafe(value, name);
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

  /** @throws PythonException TemplateNotFound; TemplateError for one that cannot be read */
  template(name: Value): Template {
    if (name instanceof Undefined) throw name.error();
    const path = isText(name) ? resolvePath(textOf(name), this.globals().get('tpldir')) : undefined;
    const template = path === undefined ? undefined : this.#find(path);
    if (template === undefined) throw new PythonException('TemplateNotFound', str(name));
    return template;
  }

  /** The first of some templates that there is. @throws PythonException TemplatesNotFound */
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
    const loaded = this.#options.loader?.load(path);
    if (loaded === undefined) return undefined;
    const { trimBlocks, lstripBlocks } = this.#options;
    const template =
      typeof loaded === 'string'
        ? parseTemplate(loaded, { name: path, trimBlocks, lstripBlocks })
        : loaded;
    this.#tpl = tplNames(path);
    this.#templates.set(path, template);
    return template;
  }
}

/** Whether a template was not there. */
export function isTemplateMissing({ kind }: PythonException): boolean {
  return kind === 'TemplateNotFound' || kind === 'TemplatesNotFound' || kind === 'UndefinedError';
}

const knownDunders: ReadonlySet<string> = new Set(
  'class doc init new repr str eq ne lt le gt ge hash dir delattr getattribute setattr reduce reduce_ex sizeof format init_subclass subclasshook'
    .split(' ')
    .map((word) => `__${word}__`),
);

function isKnownDunder(name: string): boolean {
  return knownDunders.has(name);
}
