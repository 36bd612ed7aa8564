export { ArgumentReader, isReaderBusy } from './argument-reader.ts';
export {
  badTarget,
  type FunctionArguments,
  fromJson,
  markedForm,
  markedJson,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  parseExactJson,
  parseTarget,
  parseUnexpanded,
  readMarkedJson,
  requireNodegroups,
  toJson,
  toPlainValue,
  writeMarkedJson,
} from './arguments.ts';
export { isPlainYamlText, parseYaml } from './yaml.ts';
