export {
  type Place,
  TemplateError,
  type TemplateErrorCode,
  type TemplateErrorDetails,
  type TemplateErrorEntry,
  templateErrors,
} from './errors.ts';
export type { WhitespaceOptions } from './jinja/lexer.ts';
export type { Printer, TemplateLoader } from './jinja/rendering.ts';
export { type ParseOptions, parseTemplate, type Template } from './jinja/template.ts';
export { defaultLimits, type TemplateLimits } from './limits.ts';
export { type PlainData, toPlain, toPython } from './python/convert.ts';
export { printed } from './python/repr.ts';
export { Bytes, Dict, Float, isText, Tuple, textOf, type Value } from './python/values.ts';
export { type RenderOptions, renderJinja } from './render.ts';
export type { SaltFunction } from './salt-functions.ts';
export { parseYaml, type YamlOptions } from './yaml/parse.ts';
