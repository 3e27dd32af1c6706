// The little of Node that agent-http.ts needs. With @types/node, leave this file out.
declare module "node:fs" {
  function appendFileSync(path: string, text: string): void;
  function existsSync(path: string): boolean;
  function writeFileSync(path: string, text: string): void;
}
